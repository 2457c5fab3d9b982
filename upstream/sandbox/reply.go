// Envelopes, the HTTP status of each code, and JSON with members in the order of the API
// document.

package sandbox

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	amount "github.com/shopspring/decimal"
)

// reply is one envelope for a response. Before the reply is sent, item seq must be durable, and
// settle must run.
type reply struct {
	status int
	code   string
	body   []byte
	seq    uint64
	settle func()

	retryAfter string // for rate_limited
	replayed   bool   // repeats the first reply to the same idempotency key
}

// statuses gives the HTTP status of each code. The API document gives 201, 409, 422 and 429.
// The other statuses are assumed.
var statuses = map[string]int{
	"ok": 200, "invalid_signature": 401, "stale_timestamp": 401, "replayed_nonce": 401,
	"idempotency_key_required": 400, "idempotency_key_conflict": 409, "idempotency_processing": 409,
	"idempotency_replay_failed": 409, "idempotency_unresolved": 409, "insufficient_scope": 403,
	"api_key_revoked": 403, "validation_error": 422, "offer_not_found": 404, "order_not_found": 404,
	"proxy_not_found": 404, "insufficient_wallet_balance": 402, "invalid_page_token": 400, "rate_limited": 429,
	"unsupported_operation": 404, "proxy_endpoint_unavailable": 503, "operation_failed": 422,
}

func statusOf(code string) int { return cmp.Or(statuses[code], http.StatusBadRequest) }

// envelope returns a reply with an envelope. The data is an empty object if data is nil.
func (s *world) envelope(status int, code, message string, data []byte) reply {
	if data == nil {
		data = []byte("{}")
	}
	body := object("success", code == "ok", "code", code, "message", message, "data", rawJSON(data), "timestamp", s.now(),
		"trace_id", s.tracePrefix+strconv.FormatUint(s.traces.Add(1), 36))
	return reply{status: status, code: code, body: body}
}

func (s *world) ok(data []byte) reply { return s.envelope(http.StatusOK, "ok", "ok", data) }

// refusal is a code of the API with a message, or an invalid field with the reason.
type refusal struct {
	code, message, field string

	status     int    // 0: the usual status of the code
	retryAfter string // for rate_limited
}

// Error returns the field and the reason.
func (e *refusal) Error() string { return e.field + ": " + e.message }

func refuse(code, message string) *refusal { return &refusal{code: code, message: message} }

func invalid(field, format string, args ...any) *refusal {
	return &refusal{code: "validation_error", field: field, message: fmt.Sprintf(format, args...)}
}

// refused returns the reply for a refusal. The structure of errors is assumed: each field has a
// list of messages.
func (s *world) refused(no *refusal) reply {
	message, data := no.message, []byte(nil)
	if no.field != "" {
		message = "The request is not valid."
		data, _ = json.Marshal(map[string]any{"errors": map[string][]string{no.field: {no.message}}})
	}
	out := s.envelope(cmp.Or(no.status, statusOf(no.code)), no.code, message, data)
	out.retryAfter = no.retryAfter
	return out
}

// rawJSON is encoded JSON, for use as a value in another object.
type rawJSON []byte

// object encodes a JSON object. members are a name, its value, the next name, and so on. The
// zero time becomes null.
func object(members ...any) rawJSON {
	b := make(rawJSON, 0, 512)
	for pair := range slices.Chunk(members, 2) {
		name, _ := pair[0].(string)
		b = append(append(append(b, `,"`...), name...), `":`...)
		b = appendValue(b, pair[1])
	}
	b[0] = '{'
	return append(b, '}')
}

func array(items []rawJSON) rawJSON {
	b := rawJSON{'['}
	for i, item := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, item...)
	}
	return append(b, ']')
}

func appendValue(b rawJSON, v any) rawJSON {
	switch v := v.(type) {
	case rawJSON:
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
	other, _ := jsonv2.Marshal(v) // numbers, strings and lists
	return append(b, other...)
}

// decimal formats cents as a decimal string in the main unit.
func decimal(cents int64) string { return amount.New(cents, -2).StringFixed(2) }
