package schema

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"strings"
	"testing"

	invopop "github.com/invopop/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/ledger/fact"
	"perennial/queue"
)

// apiMessage is the part of a message that the tests read.
type apiMessage struct {
	Name          string          `json:"name"`
	ContentType   string          `json:"contentType"`
	CorrelationID json.RawMessage `json:"correlationId"`
	Payload       struct {
		Schema struct {
			Ref string `json:"$ref"`
		} `json:"schema"`
	} `json:"payload"`
	Examples []struct {
		Payload any `json:"payload"`
	} `json:"examples"`
}

type apiDocument struct {
	AsyncAPI string `json:"asyncapi"`
	Channels map[string]struct {
		Address  string                `json:"address"`
		Messages map[string]apiMessage `json:"messages"`
	} `json:"channels"`
	Operations map[string]struct {
		Action  string `json:"action"`
		Channel struct {
			Ref string `json:"$ref"`
		} `json:"channel"`
		Reply *struct {
			Messages []struct {
				Ref string `json:"$ref"`
			} `json:"messages"`
		} `json:"reply"`
	} `json:"operations"`
}

// apiDocuments returns the schema files, the document beside them, and the document in one piece.
func apiDocuments(t *testing.T) (files map[string][]byte, unbundled, bundled []byte) {
	t.Helper()
	var err error
	if files, err = Files(); err != nil {
		t.Fatal(err)
	}
	if bundled, err = Document(); err != nil {
		t.Fatal(err)
	}
	return files, files["asyncapi.json"], bundled
}

func readAPI(t *testing.T, text []byte) (doc apiDocument) {
	t.Helper()
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestTheAsyncAPIDocumentNamesEverySubject(t *testing.T) {
	files, unbundled, _ := apiDocuments(t)
	doc := readAPI(t, unbundled)
	if doc.AsyncAPI != "3.1.0" {
		t.Errorf("version %q", doc.AsyncAPI)
	}
	want := map[string]string{"": "", queue.DeadSubject("{account}"): "send dead"}
	for _, line := range queue.Lines() {
		want[line.Subject("{account}")] = "receive " + string(line.Kind)
	}
	for name := range fact.Types() {
		want[queue.EventSubject("{account}", name)] = "send " + name
	}
	for _, v := range verbs.All() {
		want[queue.ServiceSubject("{account}", v.Name)] = "receive " + requestName(v)
	}
	have := map[string]string{}
	for _, c := range doc.Channels {
		have[c.Address] = ""
	}
	for _, o := range doc.Operations {
		c := doc.Channels[strings.TrimPrefix(o.Channel.Ref, "#/channels/")]
		for _, m := range c.Messages {
			have[c.Address] = o.Action + " " + m.Name
		}
		if replies := o.Reply != nil && len(o.Reply.Messages) >= 2; replies != (o.Action == "receive") {
			t.Errorf("%s %s is answered: %v", o.Action, c.Address, replies)
		}
	}
	if !maps.Equal(have, want) {
		t.Errorf("%v\nand there should be\n%v", have, want)
	}
	named := map[string]bool{"asyncapi.json": true}
	for _, c := range doc.Channels {
		for _, m := range c.Messages {
			named[strings.TrimPrefix(m.Payload.Schema.Ref, "./")] = true
		}
	}
	for name := range files {
		if !named[name] {
			t.Errorf("no channel has a message of %s", name)
		}
	}
}

func TestEveryReferenceOfTheBundledDocumentIsInIt(t *testing.T) {
	_, _, bundled := apiDocuments(t)
	var doc any
	if err := json.Unmarshal(bundled, &doc); err != nil {
		t.Fatal(err)
	}
	references := 0
	eachReference(doc, func(ref string) {
		references++
		if !resolves(doc, ref) {
			t.Errorf("%q leads nowhere", ref)
		}
	})
	if references < 100 {
		t.Errorf("%d references", references)
	}
}

// eachReference calls found for each $ref in a document, and for each $id, which would be the base
// of references.
func eachReference(v any, found func(ref string)) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range []string{"$ref", "$id"} {
			if ref, ok := v[key].(string); ok {
				found(ref)
			}
		}
		for _, inner := range v {
			eachReference(inner, found)
		}
	case []any:
		for _, inner := range v {
			eachReference(inner, found)
		}
	}
}

func resolves(doc any, ref string) bool {
	path, ok := strings.CutPrefix(ref, "#/")
	for step := range strings.SplitSeq(path, "/") {
		var object map[string]any
		if object, ok = doc.(map[string]any); !ok {
			return false
		}
		if doc, ok = object[step]; !ok {
			return false
		}
	}
	return ok
}

// The bundled document has the examples and the schemas.
func TestEveryExampleFitsItsSchema(t *testing.T) {
	_, _, bundled := apiDocuments(t)
	text, err := jsonschema.UnmarshalJSON(bytes.NewReader(bundled))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("urn:asyncapi", text); err != nil {
		t.Fatal(err)
	}
	for _, channel := range readAPI(t, bundled).Channels {
		for _, m := range channel.Messages {
			schema, err := c.Compile("urn:asyncapi" + m.Payload.Schema.Ref)
			if err != nil {
				t.Fatal(err)
			}
			if len(m.Examples) == 0 && !strings.HasSuffix(m.Name, ".answer") {
				t.Errorf("%s has no example", m.Name)
			}
			for _, x := range m.Examples {
				if err := schema.Validate(x.Payload); err != nil {
					t.Errorf("%s: %v", m.Name, err)
				}
			}
		}
	}
}

func TestEventsAreCloudEventsAndNameTheirCommand(t *testing.T) {
	_, unbundled, _ := apiDocuments(t)
	channels := readAPI(t, unbundled).Channels
	for name, command := range map[string]bool{"order.delivered": true, "command.finished": true, "proxy.skipped": true, "account.paused": false, "ledger.opened": false} {
		key := strings.ReplaceAll(name, ".", "_")
		m := channels[key].Messages[key]
		if m.ContentType != "application/cloudevents+json" || (m.CorrelationID != nil) != command {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

// Rewrite the page with: go test ./cmd/perennial/internal/schema -run PageOfVerbs -update
func TestThePageOfVerbsIsThatOfTheProgram(t *testing.T) {
	const file, begin, end = "../../../../docs/cli.md", "<!-- verbs: begin -->\n", "<!-- verbs: end -->"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(page), begin)
	_, after, _ := strings.Cut(rest, end)
	want := before + begin + "| verb | roles | what it does | request |\n|---|---|---|---|\n"
	for _, v := range verbs.All() {
		want += "| `" + v.Name + "` | " + rolesText(v) + " | " + v.Help + " | `" + v.Example + "` |\n"
	}
	want += end + after
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(page) != want {
		t.Errorf("the verbs of %s differ from the program's: run this test with -update", file)
	}
}

func TestEveryVerbHasAText(t *testing.T) {
	all := makeSchemas(t)
	for _, v := range verbs.All() {
		if v.Help == "" {
			t.Errorf("%s has no text", v.Name)
		}
		if v.IsCommand() {
			continue
		}
		request, _ := all.parts[requestName(v)].(*invopop.Schema)
		for _, name := range v.Required {
			if _, ok := request.Properties.Get(name); !ok {
				t.Errorf("%s requires %s, which it does not have", v.Name, name)
			}
		}
	}
}

func TestEveryFieldOfAVerbIsDescribed(t *testing.T) {
	all := readAll(t)
	for name := range all.parts {
		var schema map[string]any
		if err := json.Unmarshal([]byte(all.Text(name)), &schema); err != nil {
			t.Fatal(err)
		}
		undescribed(schema, func(path string) { t.Errorf("%s: %s has no description", name, path) })
	}
}
