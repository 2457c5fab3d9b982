// The codes of the response envelope, and the client's errors.

package upstream

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

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

// Error means that a response arrived but is not a usable success. It is a failure envelope,
// or Failure gives the reason. Without a valid envelope, Code is empty. errors.Is matches an
// Error with its [Code]. It also matches every HTTP 429 with [CodeRateLimited].
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
