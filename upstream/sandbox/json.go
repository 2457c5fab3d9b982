// Hand-written JSON for what every reply contains; the rest uses encoding/json.

package sandbox

import (
	"encoding/json"
	"strconv"
	"time"
)

func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) // a string always marshals
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

func appendKey(b []byte, key string) []byte {
	b = append(b, ',', '"')
	b = append(b, key...)
	return append(b, '"', ':')
}

func appendField(b []byte, key, value string) []byte { return appendString(appendKey(b, key), value) }

func appendNumber(b []byte, key string, n int64) []byte {
	return strconv.AppendInt(appendKey(b, key), n, 10)
}

func appendStrings(b []byte, key string, values []string) []byte {
	b = append(appendKey(b, key), '[')
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, v)
	}
	return append(b, ']')
}

// appendTime writes an instant, or null for the zero one.
func appendTime(b []byte, key string, t time.Time) []byte {
	b = appendKey(b, key)
	if t.IsZero() {
		return append(b, "null"...)
	}
	b = append(b, '"')
	b = t.UTC().AppendFormat(b, time.RFC3339)
	return append(b, '"')
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
