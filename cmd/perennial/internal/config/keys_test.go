package config

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the table of docs/configuration.md anew")

// declared collects the keys of a type and of its nested types by path, with their struct fields.
func declared(t reflect.Type, path string, all map[string]reflect.StructField) {
	for slices.Contains([]reflect.Kind{reflect.Pointer, reflect.Slice, reflect.Map}, t.Kind()) {
		path += map[reflect.Kind]string{reflect.Slice: "[]", reflect.Map: "." + anyName}[t.Kind()]
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return
	}
	for field := range t.Fields() {
		if key := field.Tag.Get("yaml"); key != "" {
			all[under(path, key)] = field
			declared(field.Type, under(path, key), all)
		}
	}
}

func everyKey() map[string]reflect.StructField {
	all := map[string]reflect.StructField{}
	declared(reflect.TypeFor[Config](), "", all)
	return all
}

// reference renders the table of all keys in docs/configuration.md.
func reference() string {
	c := sampleConfig()
	c.Defaults()
	rows := []string{"| key | takes | default | what it is |\n|---|---|---|---|"}
	for _, k := range keys(c) {
		if k.tag == "" {
			continue
		}
		takes := strings.TrimPrefix(kindOf(k.value.Type()), "a ")
		if within := bounds(k.tag); within != "" {
			takes += ", " + within
		}
		path := strings.ReplaceAll(k.path, "[0]", "[]")
		rows = append(rows, "| `"+path+"` | "+takes+" | "+defaultOf(k)+" | "+k.tag.Get("doc")+" |")
	}
	return strings.Join(rows, "\n") + "\n"
}

// defaultOf returns the value that applies if a key is missing.
func defaultOf(k key) string {
	if absent := k.tag.Get("absent"); absent != "" {
		return absent
	}
	value := reflect.Indirect(k.value)
	if value.IsZero() && !value.CanInt() && !value.CanFloat() && value.Kind() != reflect.Bool {
		return "none"
	}
	return fmt.Sprint("`", shown(k.path, value.Interface()), "`")
}

// Rewrite the page with: go test ./cmd/perennial/internal/config -run Reference -update
func TestTheReferenceHasEveryKeyWithItsDefault(t *testing.T) {
	t.Parallel()
	const page = "../../../../docs/configuration.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	table := reference()
	held := regexp.MustCompile(`(?m)(^\|.*\n)+`)
	if *update {
		text = held.ReplaceAllLiteral(text, []byte(table))
		if err := os.WriteFile(page, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if string(held.Find(text)) != table {
		t.Error("docs/configuration.md differs from the fields: go test ./cmd/perennial/internal/config -run Reference -update")
	}
	for path, field := range everyKey() {
		if held := field.Type; held.Kind() == reflect.Struct || held.Kind() != reflect.String && strings.Contains(table, "`"+path+".") || strings.Contains(table, "`"+path+"[].") {
			continue
		}
		line := regexp.MustCompile(`\| .` + regexp.QuoteMeta(path) + `. \| [^|]+ \| ([^|]*) \| [^|]+ \|`).FindStringSubmatch(table)
		if len(line) < 2 || line[1] == "" || !strings.Contains(line[1], field.Tag.Get("default")) {
			t.Errorf("the table has of %s: %q", path, line)
		}
	}
}

// textOf returns a file whose last line sets one key to a value.
func textOf(path, value string) (text string, line int) {
	indent := ""
	for _, step := range regexp.MustCompile(`\[\]|[^.\[]+`).FindAllString(path, -1) {
		if step == "[]" {
			text += indent + "-\n"
		} else {
			text += indent + step + ":\n"
		}
		indent += " "
	}
	return strings.TrimSuffix(text, "\n") + " " + value + "\n", strings.Count(text, "\n")
}

// The test covers every key of Config.
func TestAWrongKindIsOneFaultWithItsLine(t *testing.T) {
	t.Parallel()
	right := map[reflect.Kind][]string{
		reflect.String: {"word", "2026-01-02"}, reflect.Bool: {"true"}, reflect.Float64: {"7", "7.5"}, reflect.Pointer: {"7", "7.5"}, reflect.Int: {"7"}, reflect.Slice: {"[]"}, reflect.Map: {"{}"}, reflect.Struct: {"{}"},
	}
	right[reflect.Int64] = right[reflect.Int]
	for path, field := range everyKey() {
		for _, value := range []string{"word", "2026-01-02", "true", "7", "7.5", "[]", "{}", "hunter2"} {
			wanted := right[field.Type.Kind()]
			if field.Type == reflect.TypeFor[time.Duration]() {
				wanted = []string{"5m"}
			}
			if slices.Contains(wanted, value) || value == "hunter2" && field.Type.Kind() == reflect.String {
				continue
			}
			text, line := textOf(path, value)
			d := &decoder{lines: map[string]int{}}
			if err := d.document([]byte(text), &Config{}); err != nil {
				t.Fatal(err)
			}
			at := strings.ReplaceAll(path, "[]", "[0]")
			if len(d.faults) != 1 || d.faults[0].line != line || !strings.HasPrefix(d.faults[0].says, at) {
				t.Errorf("%s: %s: %+v", path, value, d.faults)
			}
			if !isInteger(field.Type) && field.Type != reflect.TypeFor[time.Duration]() && strings.Contains(fmt.Sprint(d.faults), "hunter2") {
				t.Errorf("%s repeats its value", path)
			}
		}
	}
}

// The faults are in the order of the file. Checks between keys report together too.
func TestAllFaultsOfAFileAreSaidAtOnce(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"accounts:\n  main:\n    base_urls: http://127.0.0.1:1\n    poll_floor: 5\n    poll_floor: 1s\n    daily_limit_cents: 1e4\nhttp: [a]\nnats: {tls_first: 1}\n---\n": {
			`line 3: "base_urls" is no key of the configuration, did you mean "base_url"?`, "line 4: accounts.main.poll_floor: 5 has no unit", "line 5: accounts.main.poll_floor is in line 4 too", "line 6: accounts.main.daily_limit_cents: 1e4",
			"line 7: http must hold keys", "line 8: nats.tls_first must be true or false, and is a whole number", "line 9: a second document",
		},
		"accounts:\n  a: {base_url: 'ftp://x', app_id: sbx_app_a}\n  b:\n    concurrency: 2000\n    replicas: -1\n    base_url: http://127.0.0.1:1\n    app_id: b\nschedules:\n  - {name: K}\n  - {name: k, account: c}\ntracing: {sample: .nan}\n": {
			"line 2: accounts.a.base_url", "line 4: accounts.b.concurrency must be 1 to 1024, and is 2000", "line 5: accounts.b.replicas must be at least 1, and is -1", "line 7: accounts.b.app_id", "line 9: schedules[0]: ", "line 10: schedules[1]: ", `line 10: schedules[1].account is "c"`,
			"line 11: tracing.sample must be 0 to 1, and is NaN",
		},
	} {
		_, err := Load(written(t, text))
		rest := fmt.Sprint(err)
		for _, says := range want {
			_, after, ok := strings.Cut(rest, says)
			if !ok {
				t.Fatalf("%q is not, or not in its order, in %v", says, err)
			}
			rest = after
		}
		if n := strings.Count(fmt.Sprint(err), "\n"); n < len(want) {
			t.Errorf("%d faults: %v", n, err)
		}
	}
}

// Aliases may refer to themselves, or expand a small file to gigabytes.
func TestAliasesAreBounded(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"nats: &a {<<: *a}\n":             "line 1: nats.<< must name other mappings",
		"nats: &a {<<: [{<<: *a}, *a]}\n": "line 1: nats.<< must name other mappings",
		"nats: {<<: 7}\n":                 "line 1: nats.<< must name other mappings",
		"nats: {users: &a [*a]}\n":        "line 1: nats.users[0] must hold keys",
	} {
		if _, err := Load(written(t, text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
	d := &decoder{lines: map[string]int{}, values: maxValues - 100}
	text := "http: {hosts: &a [" + strings.Repeat("x, ", 40) + "x]}\nwebhooks: [{events: *a}, {events: *a}, {events: *a}]\n"
	if err := d.document([]byte(text), &Config{}); err != nil || len(d.faults) != 1 || !strings.HasPrefix(d.faults[0].says, "aliases make more than") {
		t.Errorf("%v %v", d.faults, err)
	}
}
