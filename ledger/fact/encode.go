// This file encodes facts as JSON.

package fact

import (
	"bytes"
	"fmt"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// instantFormat always has microseconds, the precision of the ledger.
const instantFormat = `"2006-01-02T15:04:05.000000Z"`

// encoding is encoding/json's encoding without HTML escapes. It writes all instants in UTC,
// in instantFormat.
var encoding = jsonv2.JoinOptions(jsonv1.DefaultOptionsV1(), jsontext.EscapeForHTML(false), jsonv2.WithMarshalers(jsonv2.MarshalToFunc(
	func(e *jsontext.Encoder, t time.Time) error {
		utc := t.UTC()
		if y := utc.Year(); y < 0 || y > 9999 {
			return fmt.Errorf("the year %d of an instant cannot be written", y)
		}
		return e.WriteValue(utc.AppendFormat(e.AvailableBuffer(), instantFormat))
	})))

// Encode appends the JSON of a fact to text. v may also be reply data that contains facts.
func Encode(text *bytes.Buffer, v any) error { return jsonv2.MarshalWrite(text, v, encoding) }
