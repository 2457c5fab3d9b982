package cli

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/queue"
)

var update = flag.Bool("update", false, "write docs/events anew")

const schemaDir = "../../../../docs/events"

func TestSchemasAreThoseOfTheTypes(t *testing.T) {
	if *update {
		updateWords(t)
	}
	files, err := schemaFiles()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := writeSchemas(schemaDir, files); err != nil {
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

func TestTheAsyncAPIDocumentNamesEverySchema(t *testing.T) {
	files, err := schemaFiles()
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		AsyncAPI string `json:"asyncapi"`
		Channels map[string]struct {
			Address  string `json:"address"`
			Messages map[string]struct {
				Payload struct {
					Schema struct {
						Ref string `json:"$ref"`
					} `json:"schema"`
				} `json:"payload"`
			} `json:"messages"`
		} `json:"channels"`
		Operations map[string]any `json:"operations"`
	}
	if err := json.Unmarshal(files["asyncapi.json"], &doc); err != nil {
		t.Fatal(err)
	}
	named, addresses := map[string]bool{}, map[string]string{}
	for _, c := range doc.Channels {
		for _, m := range c.Messages {
			ref := strings.TrimPrefix(m.Payload.Schema.Ref, "./")
			if files[ref] == nil {
				t.Errorf("%s refers to %q", c.Address, ref)
			}
			named[ref], addresses[c.Address] = true, strings.TrimSuffix(ref, ".json")
		}
	}
	if len(named) != len(files)-1 || len(doc.Operations) != len(doc.Channels) {
		t.Errorf("%d schemas in %d channels and %d operations; there are %d", len(named), len(doc.Channels), len(doc.Operations), len(files)-1)
	}
	want := map[string]string{}
	for _, line := range queue.Lines() {
		want[line.Subject("{account}")] = string(line.Kind)
	}
	for name := range fact.Types() {
		want[queue.EventSubject("{account}", name)] = name
	}
	if !maps.Equal(addresses, want) {
		t.Errorf("addresses %v and there should be %v", addresses, want)
	}
}
