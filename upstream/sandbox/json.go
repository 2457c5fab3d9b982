// The JSON of replies: members in the order in which the document shows them.

package sandbox

import (
	"slices"
	"strconv"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// written is JSON that is one value of another object.
type written []byte

// object writes names and their values in turn; an instant that is zero is null.
func object(members ...any) written {
	b := make(written, 0, 512)
	for pair := range slices.Chunk(members, 2) {
		name, _ := pair[0].(string)
		b = append(append(append(b, `,"`...), name...), `":`...)
		b = appendValue(b, pair[1])
	}
	b[0] = '{'
	return append(b, '}')
}

func array(items []written) written {
	b := written{'['}
	for i, item := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, item...)
	}
	return append(b, ']')
}

func appendValue(b written, v any) written {
	switch v := v.(type) {
	case written:
		return append(b, v...)
	case string:
		quoted, _ := jsontext.AppendQuote(b, v)
		return quoted
	case int64:
		return strconv.AppendInt(b, v, 10)
	case time.Time:
		if v.IsZero() {
			return append(b, "null"...)
		}
		return append(v.UTC().AppendFormat(append(b, '"'), time.RFC3339), '"')
	}
	other, _ := jsonv2.Marshal(v) // numbers, texts and lists of them
	return append(b, other...)
}

// decimal writes cents as a decimal string of the main unit.
func decimal(cents int64) string {
	sign := ""
	if cents < 0 {
		sign, cents = "-", -cents
	}
	fraction := strconv.FormatInt(cents%100, 10)
	if len(fraction) == 1 {
		fraction = "0" + fraction
	}
	return sign + strconv.FormatInt(cents/100, 10) + "." + fraction
}
