package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"perennial/ledger/fact"
)

// shape is what consumers of an event type may rely on: its fields by their path, such as
// data.lines[].state.
type shape map[string]field

type field struct {
	Type     string      `json:"type,omitempty"`
	Required bool        `json:"required,omitempty"`
	Format   string      `json:"format,omitempty"`
	Pattern  string      `json:"pattern,omitempty"`
	Enum     []string    `json:"enum,omitempty"`
	Minimum  json.Number `json:"minimum,omitempty"`
	MaxItems json.Number `json:"maxItems,omitempty"`
}

const baselineFile = schemaDir + "/baseline.json"

// The test compares the schemas with the recorded shape. -update records new fields, but accepts no
// incompatible change.
func TestNoFieldOfAnEventIsTakenAway(t *testing.T) {
	have := shapesNow(t)
	text, err := os.ReadFile(baselineFile)
	if err != nil {
		t.Fatal(err)
	}
	var baseline map[string]shape
	if err := json.Unmarshal(text, &baseline); err != nil {
		t.Fatal(err)
	}
	for _, broken := range breaks(baseline, have) {
		t.Errorf("%s: consumers of .v1 rely on it. Leave it as it was; publish what has to differ as a new type, .v2, beside it (docs/events/README.md, What may change)", broken)
	}
	if t.Failed() {
		return
	}
	want := baselineText(t, have)
	if *update {
		if err := os.WriteFile(baselineFile, want, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(text, want) {
		t.Errorf("%s lacks what was added: go test ./cmd/perennial/internal/schema -run 'Schemas|TakenAway' -update", filepath.Base(baselineFile))
	}
}

// baselineText has one field a line, so that a diff shows each change.
func baselineText(t *testing.T, all map[string]shape) []byte {
	t.Helper()
	text := []byte("{")
	for i, name := range slices.Sorted(maps.Keys(all)) {
		if i > 0 {
			text = append(text, ',')
		}
		text = fmt.Appendf(text, "\n%q: {", name)
		for i, path := range slices.Sorted(maps.Keys(all[name])) {
			if i > 0 {
				text = append(text, ',')
			}
			line, err := json.Marshal(all[name][path])
			if err != nil {
				t.Fatal(err)
			}
			text = fmt.Appendf(text, "\n  %q: %s", path, line)
		}
		text = append(text, "\n}"...)
	}
	return append(text, "\n}\n"...)
}

// shapesNow returns the shapes of the events that this program publishes.
func shapesNow(t *testing.T) map[string]shape {
	t.Helper()
	files, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]shape{}
	for name := range fact.Types() {
		var schema node
		if err := json.Unmarshal(files[name+".json"], &schema); err != nil {
			t.Fatal(err)
		}
		all[name] = shape{}
		all[name].add("", schema)
	}
	return all
}

// node is the part of a schema that shapes need.
type node struct {
	Type       string
	Format     string
	Pattern    string
	Const      string
	Enum       []string
	Minimum    json.Number
	MaxItems   json.Number
	Required   []string
	Properties map[string]node
	Items      *node
	Values     *node `json:"additionalProperties"`
	AllOf      []node
}

// UnmarshalJSON also reads the schemas true and false, which say nothing.
func (n *node) UnmarshalJSON(text []byte) error {
	if string(text) == "true" || string(text) == "false" {
		return nil
	}
	type plain node
	return json.Unmarshal(text, (*plain)(n))
}

// add records the fields of a schema below a path.
func (s shape) add(path string, n node) {
	for _, part := range n.AllOf {
		s.add(path, part)
	}
	for name, property := range n.Properties {
		s.record(strings.TrimPrefix(path+"."+name, "."), property, slices.Contains(n.Required, name))
	}
}

func (s shape) record(path string, n node, required bool) {
	f := field{Type: n.Type, Required: required, Format: n.Format, Pattern: n.Pattern, Enum: n.Enum, Minimum: n.Minimum, MaxItems: n.MaxItems}
	if n.Const != "" {
		f.Type, f.Enum = "string", []string{n.Const}
	}
	s[path] = f
	s.add(path, n)
	if n.Items != nil {
		s.record(path+"[]", *n.Items, true)
	}
	if n.Values != nil {
		s.record(path+"{}", *n.Values, false)
	}
}

// breaks describes every change that can break a consumer of the baseline.
func breaks(baseline, have map[string]shape) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(baseline)) {
		now, ok := have[name]
		if !ok {
			all = append(all, fmt.Sprintf("the type %s was removed or renamed", name))
			continue
		}
		for _, path := range slices.Sorted(maps.Keys(baseline[name])) {
			f, ok := now[path]
			if !ok {
				all = append(all, fmt.Sprintf("%s: %s was removed or renamed", name, path))
			} else if why := baseline[name][path].narrowed(f); why != "" {
				all = append(all, fmt.Sprintf("%s: %s %s", name, path, why))
			}
		}
	}
	return all
}

// narrowed says how the field has become incompatible, "" if consumers can read it as before.
func (f field) narrowed(now field) string {
	switch {
	case f.Type != now.Type || f.Format != now.Format:
		return fmt.Sprintf("was %q %q and is %q %q", f.Type, f.Format, now.Type, now.Format)
	case f.Required && !now.Required:
		return "was in every event and is optional"
	case f.Pattern != now.Pattern:
		return fmt.Sprintf("had the pattern %q and has %q", f.Pattern, now.Pattern)
	case len(f.Enum) == 0 && len(now.Enum) > 0:
		return "was any text and is one of a few"
	case len(f.Enum) > 0 && len(now.Enum) == 0:
		return "was one of a few and is any text"
	case atLeast(now.Minimum) > atLeast(f.Minimum):
		return fmt.Sprintf("was at least %q and is at least %q", f.Minimum, now.Minimum)
	case f.MaxItems != now.MaxItems:
		return fmt.Sprintf("had at most %q entries and has %q", f.MaxItems, now.MaxItems)
	}
	for _, word := range f.Enum {
		if !slices.Contains(now.Enum, word) {
			return fmt.Sprintf("cannot be %q any more", word)
		}
	}
	return ""
}

// atLeast returns a minimum, or the smallest integer if there is none.
func atLeast(n json.Number) int64 {
	if low, err := n.Int64(); err == nil {
		return low
	}
	return -1 << 63
}

func TestOnlyABrokenFieldIsNamed(t *testing.T) {
	text := field{Type: "string", Required: true}
	for what, x := range map[string]struct{ before, now shape }{
		"removed":                 {shape{"data.a": text, "data.b": text}, shape{"data.b": text}},
		"renamed":                 {shape{"data.a": text}, shape{"data.b": text}},
		"another type":            {shape{"data.a": text}, shape{"data.a": field{Type: "integer", Required: true}}},
		"not a date any more":     {shape{"data.a": field{Type: "string", Format: "date-time"}}, shape{"data.a": field{Type: "string"}}},
		"optional":                {shape{"data.a": text}, shape{"data.a": field{Type: "string"}}},
		"a closed set":            {shape{"data.a": field{Type: "string"}}, shape{"data.a": field{Type: "string", Enum: []string{"x"}}}},
		"an open set":             {shape{"data.a": field{Type: "string", Enum: []string{"x"}}}, shape{"data.a": field{Type: "string"}}},
		"a word less":             {shape{"data.a": field{Enum: []string{"x", "y"}}}, shape{"data.a": field{Enum: []string{"y", "z"}}}},
		"a minimum":               {shape{"data.a": field{Type: "integer"}}, shape{"data.a": field{Type: "integer", Minimum: "0"}}},
		"another pattern":         {shape{"data.a": field{Pattern: "^a$"}}, shape{"data.a": field{Pattern: "^b$"}}},
		"another number of lines": {shape{"data.a": field{MaxItems: "200"}}, shape{"data.a": field{MaxItems: "100"}}},
	} {
		if all := breaks(map[string]shape{"x.y": x.before}, map[string]shape{"x.y": x.now}); len(all) != 1 || !strings.HasPrefix(all[0], "x.y: data.a ") {
			t.Errorf("%s: %q", what, all)
		}
	}
	if all := breaks(map[string]shape{"x.y": {}}, nil); len(all) != 1 {
		t.Errorf("a type was removed: %q", all)
	}
	before := map[string]shape{"x.y": {"data.a": field{Type: "string", Enum: []string{"x"}}}}
	now := map[string]shape{"x.z": {}, "x.y": {"data.a": field{Type: "string", Required: true, Enum: []string{"x", "y"}}, "data.b": text}}
	if all := breaks(before, now); len(all) > 0 {
		t.Errorf("what was added breaks nothing: %q", all)
	}
}

// The type is the same in whatever object the field is, so that a consumer can use one table of
// columns for all events.
func TestAFieldHasOneTypeInEveryEvent(t *testing.T) {
	types := map[string]field{}
	for event, fields := range shapesNow(t) {
		for path, f := range fields {
			if strings.HasSuffix(path, "[]") || strings.HasSuffix(path, "{}") {
				continue
			}
			name := path[strings.LastIndexByte(path, '.')+1:]
			kind := field{Type: f.Type, Format: f.Format}
			if seen, ok := types[name]; ok && !reflect.DeepEqual(seen, kind) && strings.HasPrefix(path, "data.") {
				t.Errorf("%s: %s is %v, and elsewhere %v", event, path, kind, seen)
			}
			types[name] = kind
		}
	}
}
