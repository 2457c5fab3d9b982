// The codes of the response envelope.

package upstream

import (
	"maps"
	"slices"
)

// Code is a stable code of the response envelope (API: Errors). It is an error,
// so that errors.Is(err, upstream.CodeRateLimited) works on what this package
// returns. Codes that are not listed here pass through unchanged.
type Code string

// The codes of the API document.
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

// Error makes a Code usable as an errors.Is target.
func (c Code) Error() string { return string(c) }

// knownCodes is the document's list, by text.
var knownCodes = byText(CodeOK, CodeInvalidSignature, CodeStaleTimestamp, CodeReplayedNonce,
	CodeIdempotencyKeyRequired, CodeIdempotencyKeyConflict, CodeIdempotencyProcessing,
	CodeIdempotencyReplayFailed, CodeIdempotencyUnresolved, CodeInsufficientScope, CodeAPIKeyRevoked,
	CodeValidationError, CodeOfferNotFound, CodeOrderNotFound, CodeProxyNotFound, CodeInsufficientWallet,
	CodeInvalidPageToken, CodeRateLimited, CodeUnsupportedOperation, CodeProxyEndpointUnavailable,
	CodeOperationFailed)

func byText(codes ...Code) map[string]Code {
	m := make(map[string]Code, len(codes))
	for _, c := range codes {
		m[string(c)] = c
	}
	return m
}

// Codes are the codes of the API document, sorted.
func Codes() []string { return slices.Sorted(maps.Keys(knownCodes)) }

// Known reports whether the API document lists the code. An unknown code stops
// automatic retries (API: Errors, client rules).
func (c Code) Known() bool {
	_, ok := knownCodes[string(c)]
	return ok
}
