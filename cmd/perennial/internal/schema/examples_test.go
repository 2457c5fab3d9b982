// The examples of the AsyncAPI document: events of a real journal, and the commands and requests
// that match them.

package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/verbs"
)

// exampleEvents has an event of each type, one a line. The ledger's tests write them from a
// journal.
const exampleEvents = "../../../../ledger/testdata/events.jsonl"

// examples maps the name of a schema to a payload.
type examples map[string]json.RawMessage

// of returns the examples of a schema in a message's form.
func (x examples) of(name string) []object {
	if x[name] == nil {
		return []object{}
	}
	return []object{{"name": strings.ReplaceAll(name, ".", "_"), "payload": x[name]}}
}

func readExamples(t *testing.T) examples {
	t.Helper()
	events, err := os.ReadFile(exampleEvents)
	if err != nil {
		t.Fatal(err)
	}
	all := examples{}
	for name, text := range exampleTexts {
		all[name] = json.RawMessage(text)
	}
	for _, v := range verbs.All() {
		all[requestName(v)] = json.RawMessage(v.Example)
		if v.AnswerExample != "" {
			all[answerName(v)] = json.RawMessage(v.AnswerExample)
		}
	}
	for line := range bytes.Lines(events) {
		var event struct {
			Type string                     `json:"type"`
			Data map[string]json.RawMessage `json:"data"`
		}
		if err := json.Unmarshal(line, &event); err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(strings.TrimPrefix(event.Type, "perennial."), ".v1")
		all[name] = bytes.TrimSpace(line)
		if name != "command.finished" {
			continue
		}
		delete(event.Data, "ledger")
		data, err := json.Marshal(event.Data)
		if err != nil {
			t.Fatal(err)
		}
		all["inbox.finished"] = data
		all[answerName(verbs.Wait.Spec)] = fmt.Appendf(nil, `{"finished":true,"result":%s}`, data)
	}
	return all
}

// exampleTexts are the examples that are neither events nor of verbs. Tests check them against
// their schemas.
var exampleTexts = map[string]string{
	"dead":          `{"reason":"not a JSON object","subject":"perennial.commands.main.order.create","data":"restock","stream_sequence":7,"published_at":"2026-11-21T12:00:00Z"}`,
	"inbox.refused": `{"error":"unreadable","reason":"not a JSON object"}`,
	"svc.error":     `{"code":"not_found","description":"there is no command or operation of that id"}`,
}
