// Whole numbers are accepted in plain digits alone.

package config

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// plainInteger is how a whole number is written in the configuration. YAML takes
// 0200000 as octal, 1e4 and 700.00 as numbers and 1_000 as 1000: an amount that an operator
// and the parser may read differently must not decide what is spent.
var plainInteger = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

// checkIntegers reads the configuration once more, as it is written, and names the
// line and the key of every whole number that is not in plain digits.
func checkIntegers(path string, text []byte) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil || len(doc.Content) == 0 {
		return nil //nolint:nilerr // the loader says it
	}
	if wrong := notPlain(doc.Content[0], reflect.TypeFor[Config](), ""); len(wrong) > 0 {
		return invalid("configuration %s: %s", path, strings.Join(wrong, "; "))
	}
	return nil
}

// notPlain walks the configuration and the structure that it is read into together.
func notPlain(n *yaml.Node, t reflect.Type, path string) (wrong []string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.Kind() == reflect.Map && n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			wrong = append(wrong, notPlain(n.Content[i+1], t.Elem(), under(path, n.Content[i].Value))...)
		}
	case t.Kind() == reflect.Slice && n.Kind == yaml.SequenceNode:
		for i, one := range n.Content {
			wrong = append(wrong, notPlain(one, t.Elem(), fmt.Sprintf("%s[%d]", path, i))...)
		}
	case t.Kind() == reflect.Struct && n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			wrong = append(wrong, notPlainField(n.Content[i], n.Content[i+1], t, path)...)
		}
	case isInteger(t):
		if why := whyNotPlain(n); why != "" {
			return []string{fmt.Sprintf("line %d: %s: %s", n.Line, path, why)}
		}
	}
	return wrong
}

func notPlainField(key, value *yaml.Node, t reflect.Type, path string) []string {
	if key.Tag == "!!merge" && value.Kind == yaml.SequenceNode {
		return notPlain(value, reflect.SliceOf(t), path)
	}
	if key.Tag == "!!merge" {
		return notPlain(value, t, path)
	}
	for field := range t.Fields() {
		if field.Tag.Get("koanf") == key.Value {
			return notPlain(value, field.Type, under(path, key.Value))
		}
	}
	return nil // the loader refuses it
}

func under(path, key string) string { return strings.TrimPrefix(path+"."+key, ".") }

func isInteger(t reflect.Type) bool {
	return (t.Kind() == reflect.Int || t.Kind() == reflect.Int64) && t != reflect.TypeFor[time.Duration]()
}

// whyNotPlain is empty for a whole number in plain digits.
func whyNotPlain(n *yaml.Node) string {
	const write = "write plain digits, such as 700 (cents: 700 are 7.00)"
	switch _, err := strconv.ParseInt(n.Value, 10, 64); {
	case n.Kind != yaml.ScalarNode:
		return "a whole number is expected: " + write
	case n.Tag == "!!null":
		return "it is empty: " + write + ", or leave the key out"
	case n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0:
		return fmt.Sprintf("%q is a text: write it without quotes", n.Value)
	case !plainInteger.MatchString(n.Value) || err != nil:
		return fmt.Sprintf("%s is not a whole number in plain digits: %s", n.Value, write)
	}
	return ""
}
