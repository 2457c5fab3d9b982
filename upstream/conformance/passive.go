// Statements that are checked on every reply of a run.

package conformance

import (
	"fmt"
	"strings"
)

// watch records the first violation of each statement that holds for all replies.
type watch struct {
	replies  int
	wrong    map[string]string // id of the check → where its statement did not hold
	unlisted string            // a code that the document does not list
}

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
		w.note("envelope.every_reply", r.seen())
		return
	}
	if success != (r.code() == "ok") {
		w.note("envelope.every_success", fmt.Sprintf("%s with success %t", r.seen(), success))
	}
	if word(r.envelope, "trace_id") == "" {
		w.note("errors.every_trace_id", r.seen())
	}
	if !strings.Contains(listedCodes, " "+r.code()+" ") {
		w.unlisted = brief(r.code())
	}
	w.values("", r.envelope)
}

func (w *watch) note(id, where string) {
	if w.wrong[id] == "" {
		w.wrong[id] = where
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
		w.note("conventions.cents_are_integers", at)
	case (name == "balance" || name == "unit_price" || name == "total" || name == "amount") && !decimal.fits(v):
		w.note("conventions.decimals_are_strings", at)
	case (strings.HasSuffix(name, "_at") || path == "timestamp") && !instant.fits(v):
		w.note("conventions.times_have_zones", at)
	default:
		w.values(path, v)
	}
}

// passiveChecks say what was noticed on all replies; they run last.
func passiveChecks() []Check {
	every := func(id, section, sentence string) Check {
		return rule(id, section, sentence, func(s *session) finding {
			where := s.watched.wrong[id]
			return when(where != "", differs("%s", where), ok("%d replies", s.watched.replies))
		}).atEnd()
	}
	return []Check{
		every("conventions.cents_are_integers", secConventions, "every *_cents of every reply is an integer"),
		every("conventions.decimals_are_strings", secConventions, "every balance, unit_price, total and amount of every reply is a decimal string"),
		every("conventions.times_have_zones", secConventions, "every time of every reply is ISO 8601 with a zone"),
		every("envelope.every_reply", secEnvelope, "every reply of the run is an envelope"),
		every("envelope.every_success", secEnvelope, "success is true exactly with the code ok, in every reply"),
		every("errors.every_trace_id", secErrors, "every reply of the run has a trace_id"),
		rule("errors.unlisted_codes", secErrors, "codes that the document does not list", func(s *session) finding {
			return ok("the last one: %q", s.watched.unlisted)
		}).open().atEnd(),
	}
}
