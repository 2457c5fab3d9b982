// `perennial schema`: JSON Schemas and the AsyncAPI document, made from the Go types.

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"
	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/config"
	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/files"
	"perennial/queue"
)

func (a *app) schemaCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: "schema [NAME]", Short: "JSON Schemas of commands and events, and the AsyncAPI document", Args: cobra.MaximumNArgs(1),
		Long: "Without a name: the AsyncAPI document. NAME is a kind of command (order.create) or a type of event (order.delivered).",
		RunE: func(_ *cobra.Command, args []string) error {
			files, err := schemaFiles()
			if err != nil {
				return err
			}
			if dir != "" {
				return writeSchemas(dir, files)
			}
			name := "asyncapi"
			if len(args) == 1 {
				name = args[0]
			}
			text, ok := files[name+".json"]
			if !ok {
				return usage("there is no schema of %q: there are %s", name, strings.ReplaceAll(strings.Join(slices.Sorted(maps.Keys(files)), ", "), ".json", ""))
			}
			_, err = a.stdout.Write(text)
			return err
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "write all of them into this directory")
	return c
}

func writeSchemas(dir string, schemas map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // schemas are for the programs of others
		return err
	}
	for name, text := range schemas {
		err := files.Write(filepath.Join(dir, name), 0o644, func(w io.Writer) error { _, err := w.Write(text); return err })
		if err != nil {
			return err
		}
	}
	return nil
}

// schemaFiles are docs/events: one schema for each kind of command and type of
// event, made from the Go types, and the AsyncAPI document that joins them.
func schemaFiles() (map[string][]byte, error) {
	schemas := map[string]any{}
	for kind, shape := range command.Shapes() {
		schemas[kind] = commandSchema(kind, shape)
	}
	for name, fact := range fact.Types() {
		schemas[name] = eventSchema(name, fact)
	}
	files := map[string][]byte{}
	schemas["asyncapi"] = asyncAPI(slices.Sorted(maps.Keys(fact.Types())))
	for name, schema := range schemas {
		text, err := json.MarshalIndent(schema, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("schema of %s: %w", name, err)
		}
		files[name+".json"] = append(text, '\n')
	}
	return files, nil
}

// object is a JSON object that is written with its keys in order.
type object = map[string]any

const draft = "https://json-schema.org/draft/2020-12/schema"

// fieldRule says whether a schema allows fields that the Go type does not have.
type fieldRule int

const (
	knownFields fieldRule = iota // of commands
	moreFields                   // of events
)

// reflected is the schema of a Go type. Commands refuse fields that are not
// known; events may gain some.
func reflected(v any, fields fieldRule) *jsonschema.Schema {
	strict := fields == knownFields
	r := &jsonschema.Reflector{Anonymous: true, DoNotReference: true, AllowAdditionalProperties: !strict, RequiredFromJSONSchemaTags: strict}
	s := r.Reflect(v)
	s.Version = ""
	return s
}

// commandsRequire are the fields that a command cannot do without; the other
// form of an order has offer_code and quantity in the place of items.
var commandsRequire = map[string][]string{"order.create": {"id", "duration_days"}, "proxy.renew": {"id", "duration_days", "proxy_ids"}}

func commandSchema(kind string, shape any) object {
	s := reflected(shape, knownFields)
	s.Required = commandsRequire[kind]
	return object{"$schema": draft, "title": "Perennial command " + kind, "allOf": []any{s}}
}

// eventSchema is a CloudEvent whose data is the fact with its place in the journal.
func eventSchema(name string, fact fact.Fact) object {
	text := object{"type": "string"}
	return object{
		"$schema": draft, "title": "Perennial event " + name, "type": "object",
		"required": []string{"specversion", "id", "source", "type", "time", "datacontenttype", "data"},
		"properties": object{
			"specversion": object{"const": "1.0"},
			"id":          object{"type": "string", "pattern": `^[a-z0-9-]{1,32}/[0-9a-f]{16}/[0-9]+$`},
			"source":      object{"type": "string", "pattern": `^perennial/[a-z0-9-]{1,32}$`},
			"type":        object{"const": "perennial." + name + ".v1"},
			"subject":     text,
			"time":        object{"type": "string", "format": "date-time"},
			"datacontenttype": object{
				"const": "application/json",
			},
			"dataschema": object{"const": ledger.SchemaID(name)},
			"data": object{"allOf": []any{reflected(fact, moreFields), object{
				"type": "object", "required": []string{"ledger"}, "properties": object{"ledger": reflected(ledger.Place{}, moreFields)},
			}}},
		},
	}
}

// lineTexts say what each priority's subject is for.
var lineTexts = map[queue.Priority]string{
	queue.PriorityHigh:   "Urgent commands: they pass all others.",
	queue.PriorityNormal: "Commands of no particular urgency; `priority` in the command counts for more than the subject.",
	queue.PriorityBulk:   "Commands that let others pass, as those of sweeps and of `perennial submit`.",
}

// asyncAPI is the AsyncAPI 3 document: who may send what where. A command has a
// channel for each of its priorities.
func asyncAPI(events []string) object {
	channels, operations := object{}, object{}
	add := func(action, name, address, description string) {
		_, rest, _ := strings.Cut(address, ".{account}.")
		key := strings.ReplaceAll(rest, ".", "_")
		channel := object{
			"address":    address,
			"parameters": object{"account": object{"description": "short name of the account, [a-z0-9-]{1,32}"}},
			"messages": object{key: object{"name": name, "contentType": "application/json", "payload": object{
				"schemaFormat": "application/schema+json;version=draft-2020-12", "schema": object{"$ref": "./" + name + ".json"},
			}}},
		}
		if description != "" {
			channel["description"] = description
		}
		channels[key] = channel
		operations[action+"_"+key] = object{"action": action, "channel": object{"$ref": "#/channels/" + key}}
	}
	for _, line := range queue.Lines() {
		add("receive", string(line.Kind), line.Subject("{account}"), lineTexts[line.Priority])
	}
	for _, name := range events {
		add("send", name, queue.EventSubject("{account}", name), "")
	}
	return object{
		"asyncapi": "3.0.0",
		"info": object{
			"title": "Perennial", "version": config.Version,
			"description": "Commands that Perennial takes, and events that it publishes, on NATS JetStream.",
		},
		"defaultContentType": "application/json", "channels": channels, "operations": operations,
	}
}
