package upstream

import (
	"encoding/json"
	"fmt"
	"maps"
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
		message := fmt.Sprint(v)
		if path != "" {
			message = path + ": " + message
		}
		if words := wordsOf(message, fieldWords); words != "" && len(*said) < 16 {
			*said = append(*said, words)
		}
	}
}
