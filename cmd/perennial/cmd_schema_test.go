package main

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
	"perennial/queue"
)

var update = flag.Bool("update", false, "write docs/events anew")

const schemaDir = "../../docs/events"

func TestSchemasAreThoseOfTheTypes(t *testing.T) {
	files, err := schemaFiles()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := writeSchemas(schemaDir, files); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := os.ReadDir(schemaDir)
	if err != nil || len(entries) != len(files) {
		t.Errorf("docs/events holds %d files and there should be %d (%v): go test ./cmd/perennial -run Schemas -update", len(entries), len(files), err)
	}
	for name, want := range files {
		if have, err := os.ReadFile(filepath.Join(schemaDir, name)); err != nil || !bytes.Equal(have, want) {
			t.Errorf("%s differs from the Go types (%v): go test ./cmd/perennial -run Schemas -update", name, err)
		}
	}
}

// compiled is the schema of a command or an event.
func compiled(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	s, err := c.Compile(filepath.Join(schemaDir, name+".json"))
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

// TestEveryEventThatIsPublishedFitsItsSchema publishes all that a day brings and
// reads the stream against docs/events.
func TestEveryEventThatIsPublishedFitsItsSchema(t *testing.T) {
	w := newWorld(t, 4)
	w.run()
	w.fault(map[string]any{"method": "POST", "path": "/api/v1/proxies/renew", "fault": "drop_after"})
	for _, args := range []string{
		"renew px_1 --id one --wait", "renew px_2 px_nowhere --id two --wait", "order --item off_us_1=1 --id three --wait",
		"order --item off_us_1=1 --scenario rejected --id four --wait", "account pause --by ada --reason x", "account resume --by ada --reason x",
		"order --item off_none=1 --id five --wait", "renew px_3 --id one --wait",
	} {
		w.cli(strings.Fields(args)...)
	}
	out, _, _ := w.cli("status", "-o", "json")
	l, seen := w.journal(t), map[string]bool{}
	for _, row := range l {
		event, err := row.Event("main", "e1")
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(event))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiled(t, row.Type).Validate(v); err != nil {
			t.Errorf("%s\n%s\n%v", row.Type, event, err)
		}
		seen[row.Type] = true
	}
	if len(seen) < 10 {
		t.Errorf("only %d types of events: %v\n%s", len(seen), seen, out)
	}
}

// journal reads the account's journal beside the running runner.
func (w *world) journal(t *testing.T) []ledger.Row {
	t.Helper()
	l, err := ledger.Open(t.Context(), ledger.Config{Path: filepath.Join(w.dir, "data", "main.ledger.db"), ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	rows, err := l.Rows(t.Context(), 0, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	return rows
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
	for name := range ledger.FactTypes() {
		want[queue.EventSubject("{account}", name)] = name
	}
	if !maps.Equal(addresses, want) {
		t.Errorf("addresses %v and there should be %v", addresses, want)
	}
}
