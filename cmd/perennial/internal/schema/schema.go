// Package schema provides the published formats: an AsyncAPI document, and JSON Schemas of
// commands, events, service requests and responses. It reads them from the embedded files of
// docs/events. The tests of this package generate those files from the Go types:
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

var layout = jsontext.WithIndent("  ")

// document is the content of asyncapi.json, decoded as far as this package changes it. The
// fields have the order of the file's keys.
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

// readDocument reads asyncapi.json, which refers to the other files, and sets this program's
// version.
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

func schemaFiles() (names []string) {
	files, _ := fs.Glob(events.Files, "*.*.json") // the pattern is valid
	for _, file := range files {
		names = append(names, strings.TrimSuffix(file, ".json"))
	}
	return names
}

func readSchemaFile(name string) ([]byte, error) { return events.Files.ReadFile(name + ".json") }

// Files returns the files of docs/events by file name: the schemas that have a file, and
// asyncapi.json.
func Files() (map[string][]byte, error) {
	d, err := readDocument()
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, name := range schemaFiles() {
		if files[name+".json"], err = readSchemaFile(name); err != nil {
			return nil, err
		}
	}
	files["asyncapi.json"], err = d.text()
	return files, err
}

// Document returns the AsyncAPI document as one file that contains every schema.
func Document() ([]byte, error) {
	d, err := readDocument()
	if err != nil {
		return nil, err
	}
	// An embedded schema must not have an $id, because its references would then be relative to
	// that $id. They must refer to the document.
	head := regexp.MustCompile(`(?m)^  "\$(?:schema|id)": .*\n|^  "\$defs": \{\n(?:    .*\n)*  \},\n`)
	for _, name := range schemaFiles() {
		text, err := readSchemaFile(name)
		if err != nil {
			return nil, err
		}
		d.Components.Schemas[name] = bytes.ReplaceAll(head.ReplaceAll(text, nil), []byte(`"#/$defs/`), []byte(`"#/components/schemas/`))
	}
	text, err := d.text()
	return regexp.MustCompile(`"\./([a-z.]+)\.json"`).ReplaceAll(text, []byte(`"#/components/schemas/$1"`)), err
}

// Schemas is the set of all schemas, by name. Schemas of commands and events come from files,
// the others from the AsyncAPI document.
type Schemas struct{ parts map[string]jsontext.Value }

// All reads all schemas.
func All() (Schemas, error) {
	d, err := readDocument()
	parts := d.Components.Schemas
	maps.DeleteFunc(parts, func(name string, _ jsontext.Value) bool {
		return name == "unprintable" || strings.HasPrefix(name, "headers.") // not schemas on their own: other schemas refer to these parts
	})
	return Schemas{parts}, err
}

// Names returns the names of all schemas.
func (s Schemas) Names() []string { return append(schemaFiles(), slices.Sorted(maps.Keys(s.parts))...) }

func (s Schemas) raw(name string) []byte {
	if part, ok := s.parts[name]; ok {
		return fmt.Appendf(nil, `{"$schema":%q,"$id":%q,%s`, draft, chain.SchemaID(name), part[1:])
	}
	text, _ := readSchemaFile(name)
	return text
}

// Text returns the schema with this name, indented. It returns "" if there is none.
func (s Schemas) Text(name string) string {
	text := jsontext.Value(s.raw(name))
	if err := text.Indent(layout); err != nil {
		return ""
	}
	return string(text) + "\n"
}

func (s Schemas) compact(name string) string {
	text := jsontext.Value(s.raw(name))
	_ = text.Compact() // the schema is valid JSON
	return string(text)
}

// VerbMetadata returns the metadata of each service request, for the NATS discovery subject
// $SRV.INFO. The keys are those that NATS uses in its own examples. The metadata contains the
// complete request and response schemas, each without line breaks.
func VerbMetadata() (map[string]map[string]string, error) {
	all, err := All()
	if err != nil {
		return nil, err
	}
	metadata := map[string]map[string]string{}
	for _, v := range verbs.All() {
		metadata[v.Name] = map[string]string{
			"description": v.Help, "format": "application/json", "roles": rolesText(v),
			"request_schema": all.compact(requestName(v)), "response_schema": all.compact(answerName(v)),
		}
	}
	return metadata, nil
}

// requestName and answerName return the names of the schemas of a service request. A service
// request that carries out a command uses the command's schemas.
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
