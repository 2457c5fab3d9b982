//go:build check

package crashtest

import (
	"bytes"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// The test publishes the events of a busy day and checks each against its schema in docs/events.
func TestEveryEventThatIsPublishedFitsItsSchema(t *testing.T) {
	t.Parallel()
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
	out, _, _ := w.cli("operations", "list", "-o", "json")
	l, seen := w.journal(t), map[string]bool{}
	for _, row := range l {
		event, err := row.Event("main")
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(event))
		if err != nil {
			t.Fatal(err)
		}
		if err := schemaOf(t, row.Type).Validate(v); err != nil {
			t.Errorf("%s\n%s\n%v", row.Type, event, err)
		}
		seen[row.Type] = true
	}
	if len(seen) < 10 {
		t.Errorf("only %d types of events: %v\n%s", len(seen), seen, out)
	}
}

func schemaOf(t testing.TB, name string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	s, err := c.Compile("../../../../docs/events/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}
