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
	Message   string    // a single line of at most 1 KiB; withheld if the text looks like credentials
	TraceID   string    // sanitised; about 256 bytes at most
	Timestamp time.Time // UTC; zero if the member is absent or is not a time with a zone

	data value // the undecoded data, which may contain credentials; nil if absent or null
}

// Received identifies the response that a value was read from.
type Received struct {
	TraceID    string
	ServerTime time.Time // the envelope's timestamp in UTC; zero if absent
}

func (e *Envelope) received() Received { return Received{e.TraceID, e.Timestamp} }

const (
	messageLimit     = 1 << 10
	traceLimit       = 256
	fieldErrorsLimit = 8 << 10
)

// DecodeEnvelope decodes one response body. It returns an error unless success is a boolean and
// code is a non-empty string. message, trace_id and timestamp may be absent or of any type.
// DecodeEnvelope does not decode the data.
func DecodeEnvelope(body []byte) (Envelope, error) {
	o, err := parseObject("", body)
	if err != nil {
		return Envelope{}, fmt.Errorf("response: %w", err)
	}
	o.need("success", "code")
	e := Envelope{
		Success: o.boolean("success"), Code: sanitizeCode(o.str("code")),
		Message: sanitizeSentence(o.described("message"), messageLimit), TraceID: o.sanitized("trace_id"),
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

// decodeData decodes the data of an envelope with the given function.
func decodeData[T any](e *Envelope, decode func(*object, *Envelope) T) (out T, err error) {
	o, err := e.object()
	if err != nil {
		return out, err
	}
	out = decode(o, e)
	return out, o.err
}

// fieldErrors returns data.errors from a failure envelope. It returns nil if the member is
// absent or larger than fieldErrorsLimit.
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
