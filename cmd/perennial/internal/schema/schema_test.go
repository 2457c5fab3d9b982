package schema

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/ledger/chain"
)

var update = flag.Bool("update", false, "write docs/events anew")

const schemaDir = "../../../../docs/events"

func TestSchemasAreThoseOfTheTypes(t *testing.T) {
	const again = "go test ./cmd/perennial/internal/schema -run Schemas -update"
	made := makeSchemas(t)
	files := made.files(t)
	if *update {
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(schemaDir, name), text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return // this binary embeds the old files
	}
	published, err := Files()
	if err != nil || len(published) != len(files) {
		t.Errorf("docs/events holds %d files and there should be %d (%v): %s", len(published), len(files), err, again)
	}
	for name, want := range files {
		if !bytes.Equal(published[name], want) {
			t.Errorf("%s differs from the Go types: %s", name, again)
		}
	}
	document, err := Document()
	if err != nil || !bytes.Equal(document, made.document(t, func(string) bool { return false })) {
		t.Errorf("the document in one piece is not what is made of the Go types (%v)", err)
	}
	all := readAll(t)
	for name, part := range made.parts {
		if all.Text(name) != string(schemaText(t, part)) {
			t.Errorf("%s is not what is made of the Go types", name)
		}
	}
	if have, want := len(all.Names()), len(made.kept)+len(made.parts); have != want {
		t.Errorf("%d names of %d schemas", have, want)
	}
}

func readAll(t *testing.T) Schemas {
	t.Helper()
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// compiled returns the schema of a command or an event, as this program publishes it.
func compiled(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	text, err := jsonschema.UnmarshalJSON(strings.NewReader(readAll(t).Text(name)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(chain.SchemaID(name), text); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(chain.SchemaID(name))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCommandSchemasTakeWhatTheRunnerTakes(t *testing.T) {
	for text, good := range map[string]bool{
		`order.create {"id":"a","duration_days":30,"items":[{"offer_code":"off","quantity":2}],"labels":{"k":"v"}}`: true,
		`order.create {"id":"a","duration_days":30,"offer_code":"off","quantity":2}`:                                true,
		`order.create {"id":"a","duration_days":30,"max_total_cent":5}`:                                             false,
		`order.create {"duration_days":30}`:                                                                         false,
		`proxy.renew {"id":"a","duration_days":30,"proxy_ids":["px_1"],"due_before":"2026-11-25T00:00:00Z"}`:        true,
		`proxy.renew {"id":"a","duration_days":30,"proxy_ids":["px_1"],"due_before":"tomorrow"}`:                    false,
		`proxy.renew {"id":"a","duration_days":"30","proxy_ids":["px_1"]}`:                                          false,
		`proxy.renew {"id":"a","duration_days":30}`:                                                                 false,
	} {
		name, body, _ := strings.Cut(text, " ")
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiled(t, name).Validate(v); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestTheMetadataOfVerbsAreTheirSchemas(t *testing.T) {
	metadata, err := VerbMetadata()
	if err != nil {
		t.Fatal(err)
	}
	all := readAll(t)
	for _, v := range verbs.All() {
		of := metadata[v.Name]
		for key, name := range map[string]string{"request_schema": requestName(v), "response_schema": answerName(v)} {
			var text bytes.Buffer
			if err := json.Indent(&text, []byte(of[key]), "", "  "); err != nil || text.String()+"\n" != all.Text(name) || strings.Contains(of[key], "\n") {
				t.Errorf("%s: its %s is not %s in one line: %v", v.Name, key, name, err)
			}
		}
		if of["description"] != v.Help || of["format"] != "application/json" || !strings.Contains(of["roles"], string(v.Roles[0])) {
			t.Errorf("%s: %q", v.Name, of)
		}
	}
	text, err := json.Marshal(metadata)
	if size := len(text); err != nil || size < 10_000 || size > 160_000 {
		t.Errorf("the metadata of all verbs have %d bytes, %v: docs/cli.md says how many an INFO has", size, err)
	}
}
