// Schemas of commands and events, generated from the Go types.

package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/invopop/jsonschema"

	"perennial/jobs/command"
	"perennial/ledger/chain"
	"perennial/ledger/fact"
)

// schemas holds all schemas by name. kept are the files for commands and events. parts are all
// others, which are in the AsyncAPI document only.
type schemas struct{ kept, parts map[string]any }

// makeSchemas generates the schemas from the Go types.
func makeSchemas(t *testing.T) schemas {
	t.Helper()
	d := describer{words: commentsOf(t, publishedTypes())}
	all := schemas{map[string]any{}, d.serviceSchemas()}
	for kind, shape := range command.Shapes() {
		all.kept[kind] = d.commandSchema(kind, shape)
	}
	for name, fact := range fact.Types() {
		all.kept[name] = d.eventSchema(name, fact)
	}
	return all
}

// files are docs/events: one schema for each kind of command and type of event, and the AsyncAPI
// document that refers to them.
func (all schemas) files(t *testing.T) map[string][]byte {
	t.Helper()
	files := map[string][]byte{"asyncapi.json": all.document(t, func(name string) bool { return all.kept[name] != nil })}
	for name, schema := range all.kept {
		files[name+".json"] = schemaText(t, schema)
	}
	return files
}

// schemaText writes a schema in ASCII, because some patterns contain characters that no editor
// shows.
func schemaText(t *testing.T, schema any) []byte {
	t.Helper()
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(schema); err != nil {
		t.Fatal(err)
	}
	var ascii []byte
	for _, r := range text.String() {
		switch {
		case r < utf8.RuneSelf:
			ascii = append(ascii, byte(r))
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			ascii = fmt.Appendf(ascii, `\u%04x\u%04x`, high, low)
		default:
			ascii = fmt.Appendf(ascii, `\u%04x`, r)
		}
	}
	return ascii
}

// object is a JSON object. It is written with sorted keys.
type object = map[string]any

// fieldRule says whether a schema allows unknown fields.
type fieldRule int

const (
	knownFields fieldRule = iota // for commands
	moreFields                   // for events
)

// reflected returns the schema of a Go type with the rules of the tables. Commands refuse unknown
// fields, and events may gain fields.
func (d describer) reflected(t reflect.Type, fields fieldRule) *jsonschema.Schema {
	strict := fields == knownFields
	r := &jsonschema.Reflector{Anonymous: true, DoNotReference: true, AllowAdditionalProperties: !strict, RequiredFromJSONSchemaTags: strict}
	s := r.ReflectFromType(t)
	s.Version = ""
	d.describe(t, s)
	return s
}

// commandsRequire are the required fields of each command. An order also needs items, or offer_code
// and quantity instead.
var commandsRequire = map[string][]string{"order.create": {"id", "duration_days"}, "proxy.renew": {"id", "duration_days", "proxy_ids"}}

func (d describer) commandSchema(kind string, shape any) *jsonschema.Schema {
	s := d.reflected(reflect.TypeOf(shape), knownFields)
	s.Version, s.ID, s.Title = draft, jsonschema.ID(chain.SchemaID(kind)), "Perennial command "+kind
	s.Required, s.Definitions = commandsRequire[kind], commandDefs()
	if item, ok := s.Properties.Get("items"); ok {
		item.Items.Required = []string{"offer_code", "quantity"}
	}
	s.Description = d.words[typeName(reflect.TypeOf(shape))]
	return s
}

// entitiesRequire are fields that are optional in some facts, but required in every fact of these
// entities.
var entitiesRequire = map[string][]string{
	"command": {"command_id"}, "operation": {"command_id", "operation_id"},
	"order": {"command_id", "operation_id"}, "renewal": {"command_id", "operation_id"},
}

// eventSchema is a CloudEvent whose data is the fact with its place in the journal.
func (d describer) eventSchema(name string, f fact.Fact) object {
	data := d.reflected(reflect.TypeOf(f), moreFields)
	entity, _, _ := strings.Cut(name, ".")
	data.Required = append(data.Required, entitiesRequire[entity]...)
	if status, ok := data.Properties.Get("status"); ok && strings.HasPrefix(name, "renewal.") {
		status.Enum = []any{strings.TrimPrefix(name, "renewal.")}
	}
	place := d.reflected(reflect.TypeFor[chain.Place](), moreFields)
	place.Description = d.words["chain.Place"]
	return object{
		"$schema": draft, "$id": chain.SchemaID(name), "title": "Perennial event " + name, "type": "object",
		"description": d.words[typeName(reflect.TypeOf(f))],
		"required":    []string{"specversion", "id", "source", "type", "time", "datacontenttype", "dataschema", "data"},
		"properties": object{
			"specversion":     object{"const": "1.0", "description": "The version of CloudEvents."},
			"id":              object{"type": "string", "pattern": `^[a-z0-9-]{1,32}/[0-9a-f]{16}/[0-9]+$`, "description": "The same for the same fact, for ever: the account, the first 16 digits of the row's hash, the row."},
			"source":          object{"type": "string", "pattern": `^perennial/[a-z0-9-]{1,32}$`, "description": "The account."},
			"type":            object{"const": "perennial." + name + ".v1", "description": "The type of the fact and the version of its shape."},
			"subject":         object{"type": "string", "description": "What the fact is about: an operation, a command, a proxy or a record of money; left out where it is the account."},
			"time":            object{"type": "string", "format": "date-time", "description": "When the fact was written to the journal."},
			"datacontenttype": object{"const": "application/json", "description": "What data is."},
			"dataschema":      object{"const": chain.SchemaID(name), "description": "The $id of this schema."},
			"traceparent":     object{"type": "string", "description": "The W3C trace context that the command's message came with."},
			"tracestate":      object{"type": "string", "description": "The vendors' part of the trace context."},
			"data": object{"description": "The fact, and its place in the journal.", "allOf": []any{data, object{
				"type": "object", "required": []string{"ledger"}, "properties": object{"ledger": place},
			}}},
		},
	}
}
