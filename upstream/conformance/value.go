// Types of the document, and access to decoded values.

package conformance

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// kind is a type of the document.
type kind int

const (
	anything kind = iota // the document names the field and not its type
	text
	integer
	boolean
	instant // ISO 8601 with a time zone
	decimal // decimal string in the main currency unit
	list
	texts    // array of strings
	integers // array of integers
	object
)

var kindNames = map[kind]string{anything: "a value", text: "a string", integer: "an integer", boolean: "a boolean",
	instant: "an ISO 8601 time with a zone", decimal: "a decimal string", list: "an array", texts: "an array of strings",
	integers: "an array of integers", object: "an object"}

var (
	integerForm = regexp.MustCompile(`^-?[0-9]+$`)
	decimalForm = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)
)

// fits reports whether a decoded value is of the kind.
func (k kind) fits(v any) bool {
	switch k {
	case anything:
		return true
	case text:
		_, ok := v.(string)
		return ok
	case boolean:
		_, ok := v.(bool)
		return ok
	case integer:
		n, ok := v.(json.Number)
		return ok && integerForm.MatchString(n.String())
	case instant:
		_, ok := timeOf(v)
		return ok
	case decimal:
		s, ok := v.(string)
		return ok && decimalForm.MatchString(s)
	case list:
		_, ok := v.([]any)
		return ok
	case texts:
		return every(v, text)
	case integers:
		return every(v, integer)
	case object:
		_, ok := v.(map[string]any)
		return ok
	}
	return false
}

func every(v any, k kind) bool {
	items, ok := v.([]any)
	for _, item := range items {
		ok = ok && k.fits(item)
	}
	return ok
}

// typeName names what came without showing it: it may be a credential.
func typeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("a string of %d bytes", len(v))
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return "the number " + brief(v.String())
	case []any:
		return fmt.Sprintf("an array of %d", len(v))
	}
	return "an object"
}

// at follows a dotted path of object members; nil when there is nothing.
func at(v any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

// cents reads an integer member.
func cents(v any, path string) (int64, bool) {
	n, ok := at(v, path).(json.Number)
	if !ok {
		return 0, false
	}
	out, err := n.Int64()
	return out, err == nil
}

func word(v any, path string) string {
	s, _ := at(v, path).(string)
	return s
}

func truth(v any, path string) bool {
	b, _ := at(v, path).(bool)
	return b
}

// things gives the objects of an array member.
func things(v any, path string) []map[string]any {
	items, _ := at(v, path).([]any)
	out := make([]map[string]any, 0, len(items))
	for _, item := range items {
		m, _ := item.(map[string]any)
		out = append(out, m)
	}
	return out
}

// words gives the strings of an array member.
func words(v any, path string) []string {
	items, _ := at(v, path).([]any)
	out := make([]string, 0, len(items))
	for _, item := range items {
		s, _ := item.(string)
		out = append(out, s)
	}
	return out
}

var zonedForm = regexp.MustCompile(`(Z|[+-][0-9]{2}:?([0-9]{2})?)$`)

// timeOf reads an ISO 8601 time with a zone.
func timeOf(v any) (time.Time, bool) {
	s, ok := v.(string)
	if !ok || !zonedForm.MatchString(s) {
		return time.Time{}, false
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07", "2006-01-02T15:04Z07:00", "20060102T150405Z0700"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// agrees reports whether a decimal string is exactly so many cents.
func agrees(decimalText string, cents int64) bool {
	got, ok := new(big.Rat).SetString(decimalText)
	return ok && decimalForm.MatchString(decimalText) && got.Cmp(big.NewRat(cents, 100)) == 0
}

// onlyArray finds the one array of a list whose key the document does not give.
func onlyArray(data map[string]any) (key string, items []map[string]any, ok bool) {
	found := 0
	for name, v := range data {
		if _, isArray := v.([]any); isArray {
			key, found = name, found+1
		}
	}
	if found != 1 {
		return "", nil, false
	}
	return key, things(data, key), true
}

// secretMembers are the members of a proxy that connect to it.
var secretMembers = []string{"username", "password", "connection", "socks5_uri"}

// secretIn names the first credential member below v that has a value.
func secretIn(v any) string {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range secretMembers {
			if got, ok := v[name]; ok && got != nil && got != "" {
				return name
			}
		}
		for _, inner := range v {
			if name := secretIn(inner); name != "" {
				return name
			}
		}
	case []any:
		for _, inner := range v {
			if name := secretIn(inner); name != "" {
				return name
			}
		}
	}
	return ""
}
