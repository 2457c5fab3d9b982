// data.errors of a validation failure, as bounded text.

package upstream

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// fieldWords bounds the words of data.errors, in bytes.
const fieldWords = 400

// fieldWordsOf says in words which fields data.errors names and why. The document
// does not give its entries (API: Errors): objects name fields, lists hold several
// messages, text is a message.
func fieldWordsOf(raw json.RawMessage) string {
	var v any
	if raw == nil || json.Unmarshal(raw, &v) != nil {
		return ""
	}
	var said []string
	collectWords("", v, &said)
	return bounded(strings.Join(said, "; "), fieldWords)
}

// collectWords walks a value and adds each message behind the path of its field.
func collectWords(path string, v any, said *[]string) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			collectWords(strings.TrimPrefix(path+"."+key, "."), v[key], said)
		}
	case []any:
		for _, one := range v {
			collectWords(path, one, said)
		}
	case nil:
	default:
		words := valueWords(path, fmt.Sprint(v))
		if path != "" && words != "" {
			words = fieldOf(path) + ": " + words
		}
		if words != "" && len(*said) < 16 {
			*said = append(*said, words)
		}
	}
}

// fieldNames matches a path of fields. Other keys may hold any text.
var fieldNames = regexp.MustCompile(`^[A-Za-z0-9_.\[\]-]{1,100}$`)

func fieldOf(path string) string {
	if fieldNames.MatchString(path) {
		return path
	}
	return withheldWord
}

// valueWords is a message of data.errors. It often repeats what was sent, or holds
// a value alone: words that no dictionary has are withheld, and under the name of
// a credential all that is not plain.
func valueWords(path, value string) string {
	if credentialWord.MatchString(path) {
		return strings.TrimSpace(onlyPlain(" " + nameOf(value, len(value))))
	}
	value = nameOf(value, len(value))
	if value == withheldWords {
		return value
	}
	return bounded(onlyDictionary(withoutCredentials(value)), fieldWords)
}
