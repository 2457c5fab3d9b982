// Package schema has the published formats: JSON Schemas of commands, events,
// and the requests and answers of verbs, and an AsyncAPI document. It reads them from the
// embedded files of docs/events, which the tests of this package make from the Go types:
//
//	go test ./cmd/perennial/internal/schema -run Schemas -update
package schema

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/verbs"
	"perennial/docs/events"
	"perennial/ledger/chain"
)

const draft = "https://json-schema.org/draft/2020-12/schema"

// layout is the indentation of the files.
var layout = jsontext.WithIndent("  ")

// document holds the parts of asyncapi.json that this package changes, with its keys in
// order.
type document struct {
	AsyncAPI   jsontext.Value `json:"asyncapi"`
	Channels   jsontext.Value `json:"channels"`
	Components struct {
		CorrelationIDs  jsontext.Value            `json:"correlationIds"`
		Parameters      jsontext.Value            `json:"parameters"`
		Schemas         map[string]jsontext.Value `json:"schemas"`
		SecuritySchemes jsontext.Value            `json:"securitySchemes"`
	} `json:"components"`
	ContentType jsontext.Value            `json:"defaultContentType"`
	Info        map[string]jsontext.Value `json:"info"`
	Operations  jsontext.Value            `json:"operations"`
	Servers     jsontext.Value            `json:"servers"`
}

// readDocument reads asyncapi.json, which refers to the other files, and sets this
// program's version.
func readDocument() (d document, err error) {
	text, err := events.Files.ReadFile("asyncapi.json")
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	if err != nil {
		return d, fmt.Errorf("AsyncAPI document: %w", err)
	}
	d.Info["version"] = fmt.Appendf(nil, "%q", config.Version)
	return d, nil
}

func (d document) text() ([]byte, error) {
	text, err := json.Marshal(d, json.Deterministic(true), jsontext.PreserveRawStrings(true), layout)
	return append(text, '\n'), err
}

// kept returns the names of the schemas that have a file.
func kept() (names []string) {
	files, _ := fs.Glob(events.Files, "*.*.json") // the pattern is valid
	for _, file := range files {
		names = append(names, strings.TrimSuffix(file, ".json"))
	}
	return names
}

func readKept(name string) ([]byte, error) { return events.Files.ReadFile(name + ".json") }

// Files returns the files of docs/events by name: the schemas with a file, and
// asyncapi.json.
func Files() (map[string][]byte, error) {
	d, err := readDocument()
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, name := range kept() {
		if files[name+".json"], err = readKept(name); err != nil {
			return nil, err
		}
	}
	files["asyncapi.json"], err = d.text()
	return files, err
}

// Document returns the AsyncAPI document as one file with every schema in it.
func Document() ([]byte, error) {
	d, err := readDocument()
	if err != nil {
		return nil, err
	}
	// A part has no $id, which would be the base of its references. They refer to the
	// document.
	head := regexp.MustCompile(`(?m)^  "\$(?:schema|id)": .*\n|^  "\$defs": \{\n(?:    .*\n)*  \},\n`)
	for _, name := range kept() {
		text, err := readKept(name)
		if err != nil {
			return nil, err
		}
		d.Components.Schemas[name] = bytes.ReplaceAll(head.ReplaceAll(text, nil), []byte(`"#/$defs/`), []byte(`"#/components/schemas/`))
	}
	text, err := d.text()
	return regexp.MustCompile(`"\./([a-z.]+)\.json"`).ReplaceAll(text, []byte(`"#/components/schemas/$1"`)), err
}

// Schemas holds all schemas by name. Those of commands and events come from files. All
// others are parts of the AsyncAPI document.
type Schemas struct{ parts map[string]jsontext.Value }

// All reads all schemas.
func All() (Schemas, error) {
	d, err := readDocument()
	parts := d.Components.Schemas
	maps.DeleteFunc(parts, func(name string, _ jsontext.Value) bool {
		return name == "unprintable" || strings.HasPrefix(name, "headers.") // other schemas refer to these
	})
	return Schemas{parts}, err
}

// Names returns the names of all schemas.
func (s Schemas) Names() []string { return append(kept(), slices.Sorted(maps.Keys(s.parts))...) }

// raw returns the schema with a name, or nil.
func (s Schemas) raw(name string) []byte {
	if part, ok := s.parts[name]; ok {
		return fmt.Appendf(nil, `{"$schema":%q,"$id":%q,%s`, draft, chain.SchemaID(name), part[1:])
	}
	text, _ := readKept(name)
	return text
}

// Text returns the schema with a name, or "".
func (s Schemas) Text(name string) string {
	text := jsontext.Value(s.raw(name))
	if err := text.Indent(layout); err != nil {
		return ""
	}
	return string(text) + "\n"
}

// line returns the schema with a name on one line.
func (s Schemas) line(name string) string {
	text := jsontext.Value(s.raw(name))
	_ = text.Compact() // it is valid JSON
	return string(text)
}

// VerbMetadata returns the metadata of each verb for $SRV.INFO, under the names in NATS's
// own examples. It holds the verb's complete schemas, each on one line.
func VerbMetadata() (map[string]map[string]string, error) {
	all, err := All()
	if err != nil {
		return nil, err
	}
	metadata := map[string]map[string]string{}
	for _, v := range verbs.All() {
		metadata[v.Name] = map[string]string{
			"description": v.Help, "format": "application/json", "roles": rolesText(v),
			"request_schema": all.line(requestName(v)), "response_schema": all.line(answerName(v)),
		}
	}
	return metadata, nil
}

// requestName and answerName return the names of a verb's schemas. A verb that carries out
// a command has the command's schemas.
func requestName(v verbs.Spec) string {
	if v.IsCommand() {
		return v.Name
	}
	return "svc." + v.Name + ".request"
}

func answerName(v verbs.Spec) string {
	if v.IsCommand() {
		return "inbox.finished"
	}
	return "svc." + v.Name + ".answer"
}

func rolesText(v verbs.Spec) string {
	names := make([]string, len(v.Roles))
	for i, r := range v.Roles {
		names[i] = string(r)
	}
	return strings.Join(names, ", ")
}
