// Schemas of commands and events, made from the Go types.

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

// schemas are all schemas by name: those of files for commands and events, and those of
// parts, which stand in the AsyncAPI document alone, for everything else.
type schemas struct{ kept, parts map[string]any }

// makeSchemas makes the schemas from the Go types.
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

// files are docs/events: one schema for each kind of command and type of event, and the
// AsyncAPI document that refers to them.
func (all schemas) files(t *testing.T) map[string][]byte {
	t.Helper()
	files := map[string][]byte{"asyncapi.json": all.document(t, func(name string) bool { return all.kept[name] != nil })}
	for name, schema := range all.kept {
		files[name+".json"] = schemaText(t, schema)
	}
	return files
}

// schemaText is a schema as it is written: in ASCII, since some patterns name characters
// that no editor shows.
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

// object is a JSON object that is written with its keys in order.
type object = map[string]any

// fieldRule says whether a schema allows fields that the Go type does not have.
type fieldRule int

const (
	knownFields fieldRule = iota // of commands
	moreFields                   // of events
)

// reflected is the schema of a Go type, with what the tables say of it. Commands refuse
// fields that are not known; events may gain some.
func (d describer) reflected(t reflect.Type, fields fieldRule) *jsonschema.Schema {
	strict := fields == knownFields
	r := &jsonschema.Reflector{Anonymous: true, DoNotReference: true, AllowAdditionalProperties: !strict, RequiredFromJSONSchemaTags: strict}
	s := r.ReflectFromType(t)
	s.Version = ""
	d.describe(t, s)
	return s
}

// commandsRequire are the fields that a command cannot do without; the other
// form of an order has offer_code and quantity in the place of items.
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

// entitiesRequire are fields that some facts lack, and every fact of these entities has.
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
