package upstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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

// Code is a code of the response envelope (API: Errors). A Code is also an error, as in
// errors.Is(err, upstream.CodeRateLimited). An unknown code stays unchanged if it is short
// and consists of letters, digits and "_-.".
type Code string

// The codes in the API document.
const (
	CodeOK                       Code = "ok"
	CodeInvalidSignature         Code = "invalid_signature"
	CodeStaleTimestamp           Code = "stale_timestamp"
	CodeReplayedNonce            Code = "replayed_nonce"
	CodeIdempotencyKeyRequired   Code = "idempotency_key_required"
	CodeIdempotencyKeyConflict   Code = "idempotency_key_conflict"
	CodeIdempotencyProcessing    Code = "idempotency_processing"
	CodeIdempotencyReplayFailed  Code = "idempotency_replay_failed"
	CodeIdempotencyUnresolved    Code = "idempotency_unresolved"
	CodeInsufficientScope        Code = "insufficient_scope"
	CodeAPIKeyRevoked            Code = "api_key_revoked"
	CodeValidationError          Code = "validation_error"
	CodeOfferNotFound            Code = "offer_not_found"
	CodeOrderNotFound            Code = "order_not_found"
	CodeProxyNotFound            Code = "proxy_not_found"
	CodeInsufficientWallet       Code = "insufficient_wallet_balance"
	CodeInvalidPageToken         Code = "invalid_page_token"
	CodeRateLimited              Code = "rate_limited"
	CodeUnsupportedOperation     Code = "unsupported_operation"
	CodeProxyEndpointUnavailable Code = "proxy_endpoint_unavailable"
	CodeOperationFailed          Code = "operation_failed"
)

// Error returns the code. The method allows a Code as the target of errors.Is.
func (c Code) Error() string { return string(c) }

var knownCodes = []Code{CodeOK, CodeInvalidSignature, CodeStaleTimestamp, CodeReplayedNonce,
	CodeIdempotencyKeyRequired, CodeIdempotencyKeyConflict, CodeIdempotencyProcessing,
	CodeIdempotencyReplayFailed, CodeIdempotencyUnresolved, CodeInsufficientScope, CodeAPIKeyRevoked,
	CodeValidationError, CodeOfferNotFound, CodeOrderNotFound, CodeProxyNotFound, CodeInsufficientWallet,
	CodeInvalidPageToken, CodeRateLimited, CodeUnsupportedOperation, CodeProxyEndpointUnavailable,
	CodeOperationFailed}

// Codes returns all codes in the API document.
func Codes() []Code { return slices.Clone(knownCodes) }

// Known reports whether the API document lists the code. A client must not retry automatically
// after an unknown code (API: Errors, client rules).
func (c Code) Known() bool { return slices.Contains(knownCodes, c) }

// Error means that a response arrived but is not a usable success. The response is a failure
// envelope, or Failure says why it is unusable. Without a valid envelope, Code is empty.
// errors.Is matches an Error with its [Code]. It also matches every HTTP 429 with
// [CodeRateLimited].
type Error struct {
	Method, Path string
	HTTPStatus   int
	Code         Code            // empty if the response had no valid envelope
	Message      string          // the provider's message, sanitised and shortened
	TraceID      string          // identifies the request to the provider's support
	Timestamp    time.Time       // the provider's time; zero if absent
	RetryAfter   RetryAfter      // the Retry-After header of the response
	FieldErrors  json.RawMessage // data.errors of a failure envelope as received; nil if absent or too large
	Failure      string          // why the response is unusable; empty for a failure envelope that can be read
}

// Error returns the method, the path, the HTTP status, the code or the failure, and the
// trace_id on one line.
func (e *Error) Error() string {
	what := string(e.Code)
	if e.Message != "" {
		what += ": " + e.Message
	}
	if e.Failure != "" {
		what = e.Failure
	}
	s := fmt.Sprintf("%s %s: HTTP %d: %s", e.Method, e.Path, e.HTTPStatus, what)
	if e.TraceID != "" {
		s += " (trace_id " + e.TraceID + ")"
	}
	return s
}

// Is reports whether target is the error's Code, or CodeRateLimited after an HTTP 429.
func (e *Error) Is(target error) bool {
	code, ok := target.(Code)
	if !ok {
		return false
	}
	return e.Code == code || (code == CodeRateLimited && e.HTTPStatus == 429)
}

// TransportError means that the client could not send a request or could not read the
// complete response. Sent is false only if no byte of the request was written.
type TransportError struct {
	Method, Path string
	Sent         bool
	Err          error
}

// Error says what failed and whether the request may have been sent.
func (e *TransportError) Error() string {
	state := "not sent"
	if e.Sent {
		state = "may have been sent"
	}
	return fmt.Sprintf("%s %s: %s: %v", e.Method, e.Path, state, e.Err)
}

// Unwrap returns the cause, so that errors.Is finds context and network errors.
func (e *TransportError) Unwrap() error { return e.Err }
