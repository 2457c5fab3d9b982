// Checks of authentication: headers, signatures, timestamps and nonces.

package conformance

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// authFailure is one way in which a request's authentication is wrong. Of those
// with codes, the document names the code; of the others, only the refusal.
type authFailure struct {
	name, what string
	codes      []string
	damage     func(s *session, d *draft)
	resign     bool
	section    string
}

// authFailures are tried on every endpoint.
var authFailures = []authFailure{
	{"unsigned", "without a signature", []string{"invalid_signature"}, func(_ *session, d *draft) { d.header.Del("X-Api-Signature") }, false, secCanonical},
	{"wrong_app_id", "under an App ID that does not exist", []string{"invalid_signature"}, func(_ *session, d *draft) { d.appID += "conformance" }, true, secCredentials},
	{"wrong_secret", "signed with another secret", []string{"invalid_signature"}, func(_ *session, d *draft) { d.secret += "x" }, true, secCanonical},
	{"stale_timestamp.6m", "with a timestamp six minutes old", []string{"stale_timestamp"}, func(s *session, d *draft) { d.stamp = s.stamp(-6 * time.Minute) }, true, secHeaders},
	{"stale_timestamp.ahead_6m", "with a timestamp six minutes ahead", []string{"stale_timestamp"}, func(s *session, d *draft) { d.stamp = s.stamp(6 * time.Minute) }, true, secHeaders},
	{"stale_timestamp.no_zone", "with a timestamp that has no zone", []string{"stale_timestamp"}, func(_ *session, d *draft) { d.stamp = strings.TrimSuffix(d.stamp, "Z") }, true, secHeaders},
	{"stale_timestamp.not_iso", "with a timestamp in seconds since 1970", []string{"stale_timestamp"}, func(s *session, d *draft) { d.stamp = strconv.FormatInt(s.now().Unix(), 10) }, true, secHeaders},
	{"other_method", "signed for another method", []string{"invalid_signature"}, func(_ *session, d *draft) { d.method = http.MethodPatch }, true, secCanonical},
	{"other_path", "signed for another path", []string{"invalid_signature"}, func(_ *session, d *draft) { d.path += "x" }, true, secCanonical},
	{"other_query", "signed for another query", []string{"invalid_signature"}, func(_ *session, d *draft) { d.canonical = "a=1" }, true, secCanonical},
	{"other_body", "signed for another body", []string{"invalid_signature"}, func(_ *session, d *draft) { d.bodyHash = bodyHash([]byte("other")) }, true, secCanonical},
	{"no_nonce", "without a nonce", nil, func(_ *session, d *draft) { d.nonce = ""; d.header.Del("X-Api-Nonce") }, true, secHeaders},
}

// authDetails are tried on one endpoint.
var authDetails = []authFailure{
	{"other_host", "signed for another host", []string{"invalid_signature"}, func(_ *session, d *draft) { d.host = "conformance.invalid" }, true, secCanonical},
	{"signed_stamp_differs", "whose signed timestamp is not the header's", []string{"invalid_signature"}, func(s *session, d *draft) { d.header.Set("X-Api-Timestamp", s.stamp(time.Second)) }, false, secCanonical},
	{"signed_nonce_differs", "whose signed nonce is not the header's", []string{"invalid_signature"}, func(_ *session, d *draft) { d.header.Set("X-Api-Nonce", newNonce()) }, false, secCanonical},
	{"empty_signature", "with an empty signature", []string{"invalid_signature"}, func(_ *session, d *draft) { d.header.Set("X-Api-Signature", "") }, false, secCanonical},
	{"short_signature", "with half a signature", []string{"invalid_signature"}, func(_ *session, d *draft) {
		d.header.Set("X-Api-Signature", d.header.Get("X-Api-Signature")[:32])
	}, false, secCanonical},
	{"other_signature", "with one digit of the signature changed", []string{"invalid_signature"}, func(_ *session, d *draft) {
		d.header.Set("X-Api-Signature", flip(d.header.Get("X-Api-Signature")))
	}, false, secCanonical},
	{"unkeyed_signature", "signed with an empty secret", []string{"invalid_signature"}, func(_ *session, d *draft) { d.secret = "" }, true, secCanonical},
	{"lower_case_method", "whose signed method is in lower case", []string{"invalid_signature"}, func(_ *session, d *draft) { d.method = strings.ToLower(d.method) }, true, secCanonical},
	{"no_app_id", "without an App ID", []string{"invalid_signature"}, func(_ *session, d *draft) { d.header.Del("X-Api-Appid") }, false, secCredentials},
	{"other_environment", "under an App ID with the other environment's prefix", []string{"invalid_signature"}, func(_ *session, d *draft) {
		d.appID = map[bool]string{true: "sbx_app_", false: "live_app_"}[strings.HasPrefix(d.appID, "live_app_")] + "conformance"
	}, true, secCredentials},
	{"stale_timestamp.5m20s", "with a timestamp twenty seconds too old", []string{"stale_timestamp"}, func(s *session, d *draft) { d.stamp = s.stamp(-320 * time.Second) }, true, secLimits},
	{"stale_timestamp.ahead_5m20s", "with a timestamp twenty seconds too far ahead", []string{"stale_timestamp"}, func(s *session, d *draft) { d.stamp = s.stamp(320 * time.Second) }, true, secLimits},
	{"stale_timestamp.one_day", "with yesterday's timestamp", []string{"stale_timestamp"}, func(s *session, d *draft) { d.stamp = s.stamp(-24 * time.Hour) }, true, secHeaders},
	{"stale_timestamp.words", "with words for a timestamp", []string{"stale_timestamp"}, func(_ *session, d *draft) { d.stamp = "yesterday" }, true, secHeaders},
	{"stale_timestamp.http_date", "with an HTTP date for a timestamp", []string{"stale_timestamp"}, func(s *session, d *draft) { d.stamp = s.now().UTC().Format(http.TimeFormat) }, true, secHeaders},
	{"stale_timestamp.zone_6m", "six minutes old in another zone", []string{"stale_timestamp"}, func(s *session, d *draft) {
		d.stamp = s.now().Add(-6 * time.Minute).In(time.FixedZone("", 8*3600)).Format(time.RFC3339)
	}, true, secHeaders},
	{"no_timestamp", "without a timestamp", nil, func(_ *session, d *draft) { d.header.Del("X-Api-Timestamp") }, false, secHeaders},
}

// withNonce is a request with a nonce of the caller's choice, signed well.
func withNonce(nonce string) request {
	return request{method: http.MethodGet, path: "/api/v1/account", resign: true, damage: func(d *draft) { d.nonce = nonce }}
}

// unsigned is a request without a signature.
func unsigned() request {
	r := get("/api/v1/account")
	r.damage = func(d *draft) { d.header.Del("X-Api-Signature") }
	return r
}

func (s *session) stamp(shift time.Duration) string {
	return s.now().Add(shift).UTC().Format(time.RFC3339)
}

// flip changes the last digit of a signature.
func flip(signature string) string {
	last := signature[len(signature)-1]
	other := byte('0')
	if last == '0' {
		other = '1'
	}
	return signature[:len(signature)-1] + string(other)
}

func authChecks() []Check {
	var out []Check
	for _, f := range authFailures {
		for _, e := range endpoints {
			out = append(out, f.check(f.name+"."+e.name, e))
		}
	}
	for _, f := range authDetails {
		out = append(out, f.check(f.name, endpoints[0]))
	}
	for _, e := range endpoints {
		out = append(out, Check{ID: "auth.replayed_nonce." + e.name, Section: secHeaders,
			Sentence: fmt.Sprintf("a nonce that was used is refused on %s %s", e.method, e.name), run: func(s *session) finding { return replayNonce(s, e) }})
	}
	return append(append(out, stampChecks()...), keyChecks()...)
}

func (f authFailure) check(id string, e endpoint) Check {
	sentence := fmt.Sprintf("%s %s %s is refused", e.method, e.name, f.what)
	if len(f.codes) > 0 {
		sentence += " with " + strings.Join(f.codes, " or ")
	}
	return Check{ID: "auth." + id, Section: f.section, Sentence: sentence, run: func(s *session) finding {
		r := e.harmless()
		r.damage, r.resign = func(d *draft) { f.damage(s, d) }, f.resign
		got := s.send(r)
		if len(f.codes) == 0 {
			return refusedAnyhow(got)
		}
		return refused(got, f.codes...)
	}}
}

// replayNonce uses a nonce twice, with everything else correct both times.
func replayNonce(s *session, e endpoint) finding {
	r, nonce := e.harmless(), newNonce()
	r.damage, r.resign = func(d *draft) { d.nonce = nonce }, true
	if first := s.send(r); first.code() == "invalid_signature" || first.envelope == nil {
		return differs("the first use: %s", first.seen())
	}
	return refused(s.send(r), "replayed_nonce")
}

// stampChecks are the forms of a timestamp, and how nonces are distinguished.
func stampChecks() []Check {
	forms := []struct {
		id, what string
		open     bool
		stamp    func(time.Time) string
	}{
		{"old_4m", "four minutes old", false, func(t time.Time) string { return t.Add(-4 * time.Minute).UTC().Format(time.RFC3339) }},
		{"ahead_4m", "four minutes ahead", false, func(t time.Time) string { return t.Add(4 * time.Minute).UTC().Format(time.RFC3339) }},
		{"old_4m40s", "twenty seconds within the five minutes", false, func(t time.Time) string { return t.Add(-280 * time.Second).UTC().Format(time.RFC3339) }},
		{"ahead_4m40s", "ahead by twenty seconds less than five minutes", false, func(t time.Time) string { return t.Add(280 * time.Second).UTC().Format(time.RFC3339) }},
		{"zone_utc_offset", "with the zone +00:00", false, func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05+00:00") }},
		{"zone_east", "in the zone +08:00", false, func(t time.Time) string { return t.In(time.FixedZone("", 8*3600)).Format(time.RFC3339) }},
		{"zone_west", "in the zone -05:30", false, func(t time.Time) string { return t.In(time.FixedZone("", -(5*3600 + 1800))).Format(time.RFC3339) }},
		{"milliseconds", "with milliseconds", false, func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }},
		{"basic_form", "in the basic form of ISO 8601", true, func(t time.Time) string { return t.UTC().Format("20060102T150405Z") }},
		{"zone_without_colon", "with the zone +0000", true, func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05+0000") }},
	}
	var out []Check
	for _, f := range forms {
		out = append(out, Check{ID: "auth.timestamp." + f.id, Section: secHeaders, Open: f.open, Sentence: "a timestamp " + f.what + " is accepted",
			run: func(s *session) finding {
				return signatureAccepted(s.send(request{method: http.MethodGet, path: "/api/v1/account", resign: true,
					damage: func(d *draft) { d.stamp = f.stamp(s.now()) }}))
			}})
	}
	return append(out,
		Check{ID: "auth.nonce.burnt_by_bad_signature", Section: secHeaders, Open: true,
			Sentence: "whether a nonce is used up by a request whose signature is wrong", run: burntNonce},
		Check{ID: "auth.nonce.retry", Section: secHeaders, Sentence: "the same request with a new nonce is accepted",
			run: func(s *session) finding {
				s.get("/api/v1/account")
				return signatureAccepted(s.get("/api/v1/account"))
			}},
		Check{ID: "auth.user_agent.script", Section: secHeaders, Open: true, Sentence: "whether a default script identifier is rejected",
			run: request{method: http.MethodGet, path: "/api/v1/account", damage: func(d *draft) { d.header.Set("User-Agent", "python-requests/2.32") }}.wants(recorded)})
}

func burntNonce(s *session) finding {
	right := withNonce(newNonce())
	wrong := right
	wrong.damage = func(d *draft) { right.damage(d); d.secret += "x" }
	s.send(wrong)
	again := s.send(right)
	return ok("afterwards the right one: %s", again.seen())
}
