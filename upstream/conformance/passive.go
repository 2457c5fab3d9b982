// Statements that are checked on every reply of a run.

package conformance

import (
	"fmt"
	"strings"
)

// watch records what every reply of a run shows: the first violation of each statement
// that holds for all replies.
type watch struct {
	replies  int
	wrong    map[string]string // kind of statement → where it did not hold
	unlisted string            // a code that the document does not list
}

// The statements that hold for every reply.
const (
	everyEnvelope = "envelope"
	everyTrace    = "trace"
	everyCents    = "cents"
	everyDecimal  = "decimal"
	everyTime     = "time"
	everySuccess  = "success"
)

var listedCodes = " ok invalid_signature stale_timestamp replayed_nonce idempotency_key_required idempotency_key_conflict idempotency_processing" +
	" idempotency_replay_failed idempotency_unresolved insufficient_scope api_key_revoked validation_error offer_not_found order_not_found" +
	" proxy_not_found insufficient_wallet_balance invalid_page_token rate_limited unsupported_operation proxy_endpoint_unavailable operation_failed "

// notice looks at one reply; called with the session's lock held.
func (w *watch) notice(r *reply) {
	w.replies++
	if w.wrong == nil {
		w.wrong = map[string]string{}
	}
	success, isBool := r.envelope["success"].(bool)
	if r.envelope == nil || !isBool || r.code() == "" {
		w.note(everyEnvelope, r.seen())
		return
	}
	if success != (r.code() == "ok") {
		w.note(everySuccess, fmt.Sprintf("%s with success %t", r.seen(), success))
	}
	if word(r.envelope, "trace_id") == "" {
		w.note(everyTrace, r.seen())
	}
	if !strings.Contains(listedCodes, " "+r.code()+" ") {
		w.unlisted = brief(r.code())
	}
	w.values("", r.envelope)
}

func (w *watch) note(kind, where string) {
	if w.wrong[kind] == "" {
		w.wrong[kind] = where
	}
}

// values goes through a reply by the names that the conventions are about.
func (w *watch) values(path string, v any) {
	switch v := v.(type) {
	case []any:
		for _, inner := range v {
			w.values(path, inner)
		}
	case map[string]any:
		for name, inner := range v {
			w.value(strings.TrimPrefix(path+"."+name, "."), name, inner)
		}
	}
}

func (w *watch) value(path, name string, v any) {
	at := brief(path) + " is " + typeName(v)
	switch {
	case v == nil:
	case strings.HasSuffix(name, "_cents") && !integer.fits(v):
		w.note(everyCents, at)
	case (name == "balance" || name == "unit_price" || name == "total" || name == "amount") && !decimal.fits(v):
		w.note(everyDecimal, at)
	case (strings.HasSuffix(name, "_at") || path == "timestamp") && !instant.fits(v):
		w.note(everyTime, at)
	default:
		w.values(path, v)
	}
}

// passiveChecks say what was noticed on all replies; they run last.
func passiveChecks() []Check {
	statements := []struct{ id, section, kind, sentence string }{
		{"conventions.cents_are_integers", secConventions, everyCents, "every *_cents of every reply is an integer"},
		{"conventions.decimals_are_strings", secConventions, everyDecimal, "every balance, unit_price, total and amount of every reply is a decimal string"},
		{"conventions.times_have_zones", secConventions, everyTime, "every time of every reply is ISO 8601 with a zone"},
		{"envelope.every_reply", secEnvelope, everyEnvelope, "every reply of the run is an envelope"},
		{"envelope.every_success", secEnvelope, everySuccess, "success is true exactly with the code ok, in every reply"},
		{"errors.every_trace_id", secErrors, everyTrace, "every reply of the run has a trace_id"},
	}
	out := make([]Check, 0, len(statements)+1)
	for _, st := range statements {
		out = append(out, Check{ID: st.id, Section: st.section, Sentence: st.sentence, last: true, run: func(s *session) finding {
			s.mu.Lock()
			defer s.mu.Unlock()
			if where := s.watched.wrong[st.kind]; where != "" {
				return differs("%s", where)
			}
			return ok("%d replies", s.watched.replies)
		}})
	}
	return append(out, Check{ID: "errors.unlisted_codes", Section: secErrors, Open: true, Sentence: "codes that the document does not list", last: true, run: func(s *session) finding {
		s.mu.Lock()
		defer s.mu.Unlock()
		return ok("the last one: %q", s.watched.unlisted)
	}})
}
