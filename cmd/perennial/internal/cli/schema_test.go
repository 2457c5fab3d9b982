package cli

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
	"perennial/ledger"
)

var update = flag.Bool("update", false, "write docs/events anew")

const schemaDir = "../../../../docs/events"

func TestSchemasAreThoseOfTheTypes(t *testing.T) {
	if *update {
		updateWords(t)
		updateExamples(t)
		updateVerbs(t)
	}
	files, err := schemaFiles()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := (outputs{}).writeSchemas(schemaDir, files); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := filepath.Glob(schemaDir + "/*.*.json")
	if err != nil || len(entries) != len(files)-1 {
		t.Errorf("docs/events holds %d schemas and there should be %d (%v): go test ./cmd/perennial/internal/cli -run Schemas -update", len(entries), len(files)-1, err)
	}
	for name, want := range files {
		if have, err := os.ReadFile(filepath.Join(schemaDir, name)); err != nil || !bytes.Equal(have, want) {
			t.Errorf("%s differs from the Go types (%v): go test ./cmd/perennial/internal/cli -run Schemas -update", name, err)
		}
	}
}

// compiled is the schema of a command or an event, as this program makes it.
func compiled(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	files, err := schemaFiles()
	if err != nil {
		t.Fatal(err)
	}
	text, err := jsonschema.UnmarshalJSON(bytes.NewReader(files[name+".json"]))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(ledger.SchemaID(name), text); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(ledger.SchemaID(name))
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

// TestTheMetadataOfVerbsAreTheirSchemas: a runner does not make them at each start.
func TestTheMetadataOfVerbsAreTheirSchemas(t *testing.T) {
	if !bytes.Equal(verbsFile, verbsNow(t)) {
		t.Error("schema_verbs.json differs from the Go types: go test ./cmd/perennial/internal/cli -run Schemas -update")
	}
}

// updateVerbs writes the metadata of verbs anew, and has this binary work by them.
func updateVerbs(t *testing.T) {
	t.Helper()
	verbsFile = verbsNow(t)
	if err := os.WriteFile("schema_verbs.json", verbsFile, 0o644); err != nil {
		t.Fatal(err)
	}
}

func verbsNow(t *testing.T) []byte {
	t.Helper()
	words, err := readSchemaWords()
	if err != nil {
		t.Fatal(err)
	}
	all := describer{words: words}.verbSchemas()
	text := func(name string) string {
		line, err := schemaText(all.named(name), "")
		if err != nil {
			t.Fatalf("schema of %s: %v", name, err)
		}
		return strings.TrimSuffix(string(line), "\n")
	}
	metadata := map[string]map[string]string{}
	for _, v := range verbs.All() {
		metadata[v.Name] = map[string]string{
			"description": v.Help, "format": "application/json", "roles": rolesText(v),
			"request_schema": text(requestName(v)), "response_schema": text(answerName(v)),
		}
	}
	made, err := json.MarshalIndent(metadata, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(made, '\n')
}
