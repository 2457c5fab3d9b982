// The types in the API document, and access to decoded values.

package conformance

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// kind is a type in the API document. fits reports whether a decoded value has the type.
type kind struct {
	name string
	fits func(v any) bool
}

var (
	integerForm = regexp.MustCompile(`^-?[0-9]+$`)
	decimalForm = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)

	anything = kind{"a value", func(any) bool { return true }} // the API document gives the field without a type
	text     = kind{"a string", is[string]}
	boolean  = kind{"a boolean", is[bool]}
	list     = kind{"an array", is[[]any]}
	object   = kind{"an object", is[map[string]any]}
	instant  = kind{"an ISO 8601 time with a zone", func(v any) bool { _, ok := timeOf(v); return ok }}
	integer  = kind{"an integer", func(v any) bool { n, ok := v.(json.Number); return ok && integerForm.MatchString(n.String()) }}
	decimal  = kind{"a decimal string", func(v any) bool { s, ok := v.(string); return ok && decimalForm.MatchString(s) }}
	texts    = kind{"an array of strings", every(text)}
	integers = kind{"an array of integers", every(integer)}
)

func is[T any](v any) bool {
	_, ok := v.(T)
	return ok
}

func every(k kind) func(any) bool {
	return func(v any) bool {
		items, ok := v.([]any)
		return ok && !slices.ContainsFunc(items, func(item any) bool { return !k.fits(item) })
	}
}

// typeName describes a value without the text of a string, which may be a credential.
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

// at returns the value at a path of member names, separated by dots. It returns nil if the path
// does not exist.
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

func cents(v any, path string) (int64, bool) {
	n, ok := at(v, path).(json.Number)
	if !ok {
		return 0, false
	}
	out, err := n.Int64()
	return out, err == nil
}

// member returns the value at a path, or the zero value if the value has another type.
func member[T any](v any, path string) T {
	got, _ := at(v, path).(T)
	return got
}

func word(v any, path string) string { return member[string](v, path) }

func truth(v any, path string) bool { return member[bool](v, path) }

func things(v any, path string) []map[string]any { return members[map[string]any](at(v, path)) }

func words(v any, path string) []string { return members[string](at(v, path)) }

func members[T any](v any) []T {
	items, _ := v.([]any)
	out := make([]T, len(items))
	for i, item := range items {
		out[i], _ = item.(T)
	}
	return out
}

// wordsOf returns the string at a path in each object.
func wordsOf(objects []map[string]any, path string) []string {
	out := make([]string, len(objects))
	for i, o := range objects {
		out[i] = word(o, path)
	}
	return out
}

var zonedForm = regexp.MustCompile(`(Z|[+-][0-9]{2}:?([0-9]{2})?)$`)

// timeOf parses an ISO 8601 time with a zone.
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

// agrees reports whether a decimal string equals a number of cents.
func agrees(decimalText string, cents int64) bool {
	got, ok := new(big.Rat).SetString(decimalText)
	return ok && decimalForm.MatchString(decimalText) && got.Cmp(big.NewRat(cents, 100)) == 0
}

// onlyArray returns the name and the entries of the only array. ok is false if there is not
// exactly one array. The API document does not give the names of some lists.
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

// secretMembers are the members of a proxy that contain credentials.
var secretMembers = []string{"username", "password", "connection", "socks5_uri"}

// secretIn returns the name of a member that contains credentials, or "".
func secretIn(v any) string {
	var inner []any
	switch v := v.(type) {
	case map[string]any:
		for _, name := range secretMembers {
			if v[name] != nil && v[name] != "" {
				return name
			}
		}
		inner = slices.Collect(maps.Values(v))
	case []any:
		inner = v
	}
	for _, one := range inner {
		if name := secretIn(one); name != "" {
			return name
		}
	}
	return ""
}
