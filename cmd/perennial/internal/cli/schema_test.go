package cli

import (
	"bytes"
	"strings"
	"testing"
)

// schemaOf returns the output of `perennial schema NAME`.
func schemaOf(t *testing.T, args ...string) (out, errs string, code int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = Program{Args: append([]string{"schema"}, args...), Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr}.Main(t.Context())
	return stdout.String(), stderr.String(), code
}

func TestSchemaPrintsOneDocumentOrTheNamedSchema(t *testing.T) {
	document, _, _ := schemaOf(t)
	for name, want := range map[string]string{
		"asyncapi": document, "order.create": `"$id": "urn:perennial:schema:order.create:v1"`,
		"svc.wait.answer": `"$id": "urn:perennial:schema:svc.wait.answer:v1"`, "dead": `"stream_sequence"`,
	} {
		if out, errs, code := schemaOf(t, name); code != ExitDone || !strings.Contains(out, want) {
			t.Errorf("%q: %d, %s", name, code, errs)
		}
	}
	for name, want := range map[string]string{"order.lost": "did you mean order.listed", "nope": "order.delivered", "headers.command": "names are such as"} {
		if _, errs, code := schemaOf(t, name); code != ExitUsage || !strings.Contains(errs, want) || len(errs) > 250 {
			t.Errorf("%q: %d, %s", name, code, errs)
		}
	}
}
