// Decoding of the response envelope.

package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Envelope is the outer object of every response (API: Response envelope).
type Envelope struct {
	Success   bool
	Code      Code
	Message   string    // one line of at most 1 KiB; withheld if it looks like credentials
	TraceID   string    // like Message, but at most 256 bytes
	Timestamp time.Time // UTC; zero if absent or not a time with a zone

	data value // raw data; nil if absent or null; may hold credentials
}

// Received identifies the response that a value was read from.
type Received struct {
	TraceID    string
	ServerTime time.Time // the envelope's timestamp, UTC; zero if absent
}

func (e *Envelope) received() Received { return Received{e.TraceID, e.Timestamp} }

const (
	messageLimit     = 1 << 10
	traceLimit       = 256
	fieldErrorsLimit = 8 << 10
)

// DecodeEnvelope decodes one response body. success must be a boolean and code non-empty.
// message, trace_id and timestamp may be absent or of any type. Only the typed decoders
// read the data.
func DecodeEnvelope(body []byte) (Envelope, error) {
	o, err := parseObject("", body)
	if err != nil {
		return Envelope{}, fmt.Errorf("response: %w", err)
	}
	o.need("success", "code")
	e := Envelope{
		Success: o.boolean("success"), Code: codeOf(o.str("code")),
		Message: wordsOf(o.described("message"), messageLimit), TraceID: o.loose("trace_id"),
		Timestamp: o.instant("timestamp"), data: o.raw("data"),
	}
	if o.err == nil && e.Code == "" {
		o.err = errors.New("code is empty")
	}
	if o.err != nil {
		return Envelope{}, fmt.Errorf("response is not an envelope: %w", o.err)
	}
	return e, nil
}

func (e *Envelope) object() (*object, error) {
	if e.data == nil {
		return nil, errors.New("data is missing")
	}
	return parseObject("data", e.data)
}

// decodeData decodes an envelope's data with the given decoder.
func decodeData[T any](e *Envelope, decode func(*object, *Envelope) T) (out T, err error) {
	o, err := e.object()
	if err != nil {
		return out, err
	}
	out = decode(o, e)
	return out, o.err
}

// fieldErrors returns a copy of data.errors of a validation failure, up to
// fieldErrorsLimit.
func (e *Envelope) fieldErrors() json.RawMessage {
	if e.Success || e.data == nil {
		return nil
	}
	o, err := e.object()
	if err != nil {
		return nil
	}
	raw := o.raw("errors")
	if len(raw) > fieldErrorsLimit {
		return nil
	}
	return json.RawMessage(raw)
}
