package conformance

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
	"time"
)

type authFailure struct {
	name, what    string
	code          string // "": the API document gives no code
	damage        func(*draft)
	beforeSigning bool
	section       string
}

var authFailures = []authFailure{
	{"unsigned", "without a signature", "invalid_signature", func(d *draft) { d.header.Del("X-Api-Signature") }, false, secCanonical},
	{"wrong_app_id", "under an App ID that does not exist", "invalid_signature", func(d *draft) { d.appID += "conformance" }, true, secCredentials},
	{"wrong_secret", "signed with another secret", "invalid_signature", func(d *draft) { d.secret += "x" }, true, secCanonical},
	{"stale_timestamp.6m", "with a timestamp six minutes old", "stale_timestamp", func(d *draft) { d.stamp = d.shifted(-6 * time.Minute) }, true, secHeaders},
	{"stale_timestamp.ahead_6m", "with a timestamp six minutes ahead", "stale_timestamp", func(d *draft) { d.stamp = d.shifted(6 * time.Minute) }, true, secHeaders},
	{"stale_timestamp.no_zone", "with a timestamp that has no zone", "stale_timestamp", func(d *draft) { d.stamp = strings.TrimSuffix(d.stamp, "Z") }, true, secHeaders},
	{"stale_timestamp.not_iso", "with a timestamp in seconds since 1970", "stale_timestamp", func(d *draft) { d.stamp = strconv.FormatInt(d.at.Unix(), 10) }, true, secHeaders},
	{"other_method", "signed for another method", "invalid_signature", func(d *draft) { d.method = http.MethodPatch }, true, secCanonical},
	{"other_path", "signed for another path", "invalid_signature", func(d *draft) { d.path += "x" }, true, secCanonical},
	{"other_query", "signed for another query", "invalid_signature", func(d *draft) { d.canonical = "a=1" }, true, secCanonical},
	{"other_body", "signed for another body", "invalid_signature", func(d *draft) { d.bodyHash = bodyHash([]byte("other")) }, true, secCanonical},
	{"no_nonce", "without a nonce", "", func(d *draft) { d.nonce = ""; d.header.Del("X-Api-Nonce") }, true, secHeaders},
}

var authDetails = []authFailure{
	{"other_host", "signed for another host", "invalid_signature", func(d *draft) { d.host = "conformance.invalid" }, true, secCanonical},
	{"signed_stamp_differs", "whose signed timestamp is not the header's", "invalid_signature", func(d *draft) { d.header.Set("X-Api-Timestamp", d.shifted(time.Second)) }, false, secCanonical},
	{"signed_nonce_differs", "whose signed nonce is not the header's", "invalid_signature", func(d *draft) { d.header.Set("X-Api-Nonce", newNonce()) }, false, secCanonical},
	{"empty_signature", "with an empty signature", "invalid_signature", func(d *draft) { d.header.Set("X-Api-Signature", "") }, false, secCanonical},
	{"short_signature", "with half a signature", "invalid_signature", func(d *draft) { d.header.Set("X-Api-Signature", d.header.Get("X-Api-Signature")[:32]) }, false, secCanonical},
	{"other_signature", "with one digit of the signature changed", "invalid_signature", func(d *draft) { d.header.Set("X-Api-Signature", flip(d.header.Get("X-Api-Signature"))) }, false, secCanonical},
	{"unkeyed_signature", "signed with an empty secret", "invalid_signature", func(d *draft) { d.secret = "" }, true, secCanonical},
	{"lower_case_method", "whose signed method is in lower case", "invalid_signature", func(d *draft) { d.method = strings.ToLower(d.method) }, true, secCanonical},
	{"no_app_id", "without an App ID", "invalid_signature", func(d *draft) { d.header.Del("X-Api-Appid") }, false, secCredentials},
	{"other_environment", "under an App ID with the other environment's prefix", "invalid_signature", func(d *draft) {
		d.appID = map[bool]string{true: "sbx_app_", false: "live_app_"}[strings.HasPrefix(d.appID, "live_app_")] + "conformance"
	}, true, secCredentials},
	{"stale_timestamp.5m20s", "with a timestamp twenty seconds too old", "stale_timestamp", func(d *draft) { d.stamp = d.shifted(-320 * time.Second) }, true, secLimits},
	{"stale_timestamp.ahead_5m20s", "with a timestamp twenty seconds too far ahead", "stale_timestamp", func(d *draft) { d.stamp = d.shifted(320 * time.Second) }, true, secLimits},
	{"stale_timestamp.one_day", "with yesterday's timestamp", "stale_timestamp", func(d *draft) { d.stamp = d.shifted(-24 * time.Hour) }, true, secHeaders},
	{"stale_timestamp.words", "with words for a timestamp", "stale_timestamp", func(d *draft) { d.stamp = "yesterday" }, true, secHeaders},
	{"stale_timestamp.http_date", "with an HTTP date for a timestamp", "stale_timestamp", func(d *draft) { d.stamp = d.at.UTC().Format(http.TimeFormat) }, true, secHeaders},
	{"stale_timestamp.zone_6m", "six minutes old in another zone", "stale_timestamp", func(d *draft) {
		d.stamp = d.at.Add(-6 * time.Minute).In(time.FixedZone("", 8*3600)).Format(time.RFC3339)
	}, true, secHeaders},
	{"no_timestamp", "without a timestamp", "", func(d *draft) { d.header.Del("X-Api-Timestamp") }, false, secHeaders},
}

func changedBeforeSigning(change func(*draft)) request {
	return get("/api/v1/account").damaged(change, true)
}

func changedAfterSigning(change func(*draft)) request {
	return get("/api/v1/account").damaged(change, false)
}

func (r request) damaged(damage func(*draft), beforeSigning bool) request {
	r.damage, r.beforeSigning = damage, beforeSigning
	return r
}

func withNonce(nonce string) request { return changedBeforeSigning(func(d *draft) { d.nonce = nonce }) }

func unsigned() request {
	return changedAfterSigning(func(d *draft) { d.header.Del("X-Api-Signature") })
}

func flip(signature string) string {
	kept, last := signature[:len(signature)-1], signature[len(signature)-1]
	if last == '0' {
		return kept + "1"
	}
	return kept + "0"
}

func authChecks(c *suite) {
	for _, f := range authFailures {
		for _, e := range endpoints {
			f.check(c, f.name+"."+e.name, e)
		}
	}
	for _, f := range authDetails {
		f.check(c, f.name, endpoints[0])
	}
	for _, e := range endpoints {
		c.rule("auth.replayed_nonce."+e.name, secHeaders, "a nonce that was used is refused on "+e.method+" "+e.name, func(s *session) finding {
			nonce := newNonce()
			r := e.harmless().damaged(func(d *draft) { d.nonce = nonce }, true)
			if first := s.send(r); first.code() == "invalid_signature" || first.envelope == nil {
				return differs("the first use: %s", first.seen())
			}
			return refused(s.send(r), "replayed_nonce")
		})
	}
	stampChecks(c)
	keyChecks(c)
}

func (f authFailure) check(c *suite, id string, e endpoint) {
	sentence := e.method + " " + e.name + " " + f.what + " is refused"
	if f.code != "" {
		sentence += " with " + f.code
	}
	c.rule("auth."+id, f.section, sentence, e.harmless().damaged(f.damage, f.beforeSigning).wants(func(r reply) finding {
		return refused(r, cmp.Or(f.code, r.code()))
	}))
}

func stampChecks(c *suite) {
	for _, f := range []struct {
		id, what string
		open     bool
		by       time.Duration
		zone     *time.Location
		layout   string
	}{
		{"old_4m", "four minutes old", false, -4 * time.Minute, time.UTC, time.RFC3339},
		{"ahead_4m", "four minutes ahead", false, 4 * time.Minute, time.UTC, time.RFC3339},
		{"old_4m40s", "twenty seconds within the five minutes", false, -280 * time.Second, time.UTC, time.RFC3339},
		{"ahead_4m40s", "ahead by twenty seconds less than five minutes", false, 280 * time.Second, time.UTC, time.RFC3339},
		{"zone_utc_offset", "with the zone +00:00", false, 0, time.UTC, "2006-01-02T15:04:05+00:00"},
		{"zone_east", "in the zone +08:00", false, 0, time.FixedZone("", 8*3600), time.RFC3339},
		{"zone_west", "in the zone -05:30", false, 0, time.FixedZone("", -(5*3600 + 1800)), time.RFC3339},
		{"milliseconds", "with milliseconds", false, 0, time.UTC, "2006-01-02T15:04:05.000Z"},
		{"basic_form", "in the basic form of ISO 8601", true, 0, time.UTC, "20060102T150405Z"},
		{"zone_without_colon", "with the zone +0000", true, 0, time.UTC, "2006-01-02T15:04:05+0000"},
	} {
		r := changedBeforeSigning(func(d *draft) { d.stamp = d.at.Add(f.by).In(f.zone).Format(f.layout) })
		c.rule("auth.timestamp."+f.id, secHeaders, "a timestamp "+f.what+" is accepted", r.wants(signatureAccepted)).openIf(f.open)
	}
	c.rule("auth.nonce.burnt_by_bad_signature", secHeaders, "whether a nonce is used up by a request whose signature is wrong", func(s *session) finding {
		nonce := newNonce()
		s.send(changedBeforeSigning(func(d *draft) { d.nonce, d.secret = nonce, d.secret+"x" }))
		again := s.send(withNonce(nonce))
		return ok("afterwards the right one: %s", again.seen())
	}).open()
	c.rule("auth.nonce.retry", secHeaders, "the same request with a new nonce is accepted", func(s *session) finding {
		s.get("/api/v1/account")
		return signatureAccepted(s.get("/api/v1/account"))
	})
	c.rule("auth.user_agent.script", secHeaders, "whether a default script identifier is rejected",
		changedAfterSigning(func(d *draft) { d.header.Set("User-Agent", "python-requests/2.32") }).wants(recorded)).open()
}

func keyChecks(c *suite) {
	for _, e := range endpoints {
		c.rule("auth.revoked."+e.name, secCredentials, "a disabled key is refused on "+e.method+" "+e.name,
			asks(withKey(RoleRevoked, "", "a key of the role revoked", e.prepared), refusing("api_key_revoked")))
		c.rule("auth.outside."+e.name, secCredentials, "a source outside the allowed range is refused on "+e.method+" "+e.name,
			asks(withKey(RoleOutside, "", "a key of the role outside", e.prepared), refusing("insufficient_scope")))
	}
	otherEnvironmentChecks(c)
	c.rule("auth.environments_not_mixed", secCredentials, "the key is refused in the other environment", func(s *session) finding {
		return refusedAnyhow(sendToOther(s, get("/api/v1/account")))
	})
	c.rule("auth.nonce.per_key", secHeaders, "a nonce is refused under the same key, not under another", noncePerKey)
	c.rule("auth.secret_never_comes_back", secCredentials, "no reply of the run holds the API Secret", func(s *session) finding {
		return when(s.leaked > 0, differs("%d replies hold it", s.leaked), ok("%d replies looked at", s.requests.Load()))
	}).atEnd()
}

func sendToOther(s *session, r request) reply {
	if s.cfg.OtherBaseURL == "" {
		s.skipf("needs the other environment's address")
	}
	base, err := parseAddress(s.cfg.OtherBaseURL)
	if err != nil {
		s.skipf("%s", err)
	}
	there := newSession(s.ctx, s.cfg, base)
	there.skew, there.moved = s.skew, s.moved
	return there.send(r)
}

func otherEnvironmentChecks(c *suite) {
	there := func(code string, made prepared) judgement {
		return func(s *session) finding {
			return refused(sendToOther(s, withKey(RoleThere, "", "a key of the role there", made)(s)), code)
		}
	}
	c.rule("errors.order_not_found.there", secDetail, "an order is order_not_found in the other environment", there("order_not_found", orderAt("orders")))
	c.rule("errors.proxy_not_found.there", secProxies, "a proxy is proxy_not_found in the other environment", there("proxy_not_found", proxyAt("proxies")))
	for _, p := range pagedLists {
		c.rule("page.token."+p.name+".there", secPagination, "a token of "+p.name+" is refused with invalid_page_token in the other environment", there("invalid_page_token", p.secondPage))
	}
}

func noncePerKey(s *session) finding {
	second := cmp.Or(s.keyOf(RoleSame, ""), s.keyOf(RoleOther, ""))
	if second == nil {
		return notRun("needs a second key")
	}
	r := withNonce(newNonce())
	s.send(r)
	r.otherKey = second
	return signatureAccepted(s.send(r))
}

func scopeChecks(c *suite) {
	scopes := []string{"account:read", "wallet:read", "offers:read", "orders:read", "orders:write", "proxies:read", "proxies:write"}
	for _, scope := range scopes {
		for _, e := range endpoints {
			verb, want := "does not open", refusing("insufficient_scope")
			if e.scope == scope {
				verb, want = "opens", func(r reply) finding {
					return accepted(r, "insufficient_scope", "invalid_signature", "stale_timestamp", "replayed_nonce")
				}
			}
			c.rule("scope."+scope+"."+e.name, secCredentials, scope+" alone "+verb+" "+e.method+" "+e.name,
				asks(withKey(RoleScope, scope, "a key with the scope "+scope+" alone", e.prepared), want))
		}
	}
}

// withKey adds an additional key to a request. If the run has no such key, the check is skipped,
// and the reason contains the description what.
func withKey(role Role, scope, what string, made prepared) prepared {
	return func(s *session) request {
		key := s.keyOf(role, scope)
		if key == nil {
			s.skipf("needs %s", what)
		}
		r := made(s)
		r.otherKey = key
		return r
	}
}

func foreign(made prepared) prepared {
	return withKey(RoleOther, "", "a key of another account", made)
}

// canonicalChecks check only whether the server accepts the signature.
func canonicalChecks(c *suite) {
	offers := func(v variant) request {
		r := get("/api/v1/offers", v.pairs...)
		r.query = v.sent
		return r
	}
	for _, v := range queryVariants {
		c.rule("canonical.query."+v.id, secCanonical, "the signature of a query with "+v.what+" is accepted", offers(v).wants(signatureAccepted)).openIf(v.open)
	}
	for _, v := range wrongCanonical {
		r := offers(v).damaged(func(d *draft) { d.canonical = v.signed }, true)
		c.rule("canonical.wrong."+v.id, secCanonical, "a canonical query "+v.what+" is refused with invalid_signature", r.wants(refusing("invalid_signature")))
	}
	for _, v := range bodyVariants {
		c.rule("canonical.body."+v.id, secCanonical, "a body with "+v.what+" is signed exactly as sent", post("/api/v1/proxies/renew", "body", v.sent).wants(signatureAccepted))
	}
	hostChecks(c)
	pathChecks(c)
}

type variant struct {
	id, what string
	sent     string // the query or the body; an empty query means the canonical form of pairs
	pairs    []pair
	signed   string // the signed query, for wrongCanonical
	open     bool
}

var queryVariants = []variant{
	{id: "one", what: "one pair", pairs: []pair{{"country_code", "US"}}},
	{id: "unsorted_keys", what: "keys out of order", sent: "region=a&country_code=US", pairs: []pair{{"country_code", "US"}, {"region", "a"}}},
	{id: "repeated_key", what: "a key that appears twice", sent: "region=b&region=a", pairs: []pair{{"region", "a"}, {"region", "b"}}},
	{id: "repeated_pair", what: "a pair that appears twice", sent: "region=a&region=a", pairs: []pair{{"region", "a"}, {"region", "a"}}},
	{id: "three_values", what: "a key with values 2, 10 and 1, sorted as text", sent: "region=2&region=10&region=1", pairs: []pair{{"region", "1"}, {"region", "10"}, {"region", "2"}}},
	{id: "empty_value", what: "an empty value", sent: "region=", pairs: []pair{{"region", ""}}},
	{id: "no_equals", what: "a key without an equals sign", sent: "region", pairs: []pair{{"region", ""}}, open: true},
	{id: "space", what: "a space as %20", sent: "region=New%20York", pairs: []pair{{"region", "New York"}}},
	{id: "encoded_plus", what: "a plus sign as %2B", sent: "region=a%2Bb", pairs: []pair{{"region", "a+b"}}},
	{id: "plus_is_plus", what: "a bare plus sign that stands for itself", sent: "region=a+b", pairs: []pair{{"region", "a+b"}}, open: true},
	{id: "plus_is_space", what: "a bare plus sign that stands for a space", sent: "region=a+b", pairs: []pair{{"region", "a b"}}, open: true},
	{id: "percent", what: "a percent sign as %25", sent: "region=100%25", pairs: []pair{{"region", "100%"}}},
	{id: "slash", what: "a slash as %2F", sent: "region=a%2Fb", pairs: []pair{{"region", "a/b"}}},
	{id: "bare_slash", what: "a bare slash, encoded when signed", sent: "region=a/b", pairs: []pair{{"region", "a/b"}}},
	{id: "bare_colon", what: "a bare colon and comma, encoded when signed", sent: "region=a:b,c", pairs: []pair{{"region", "a:b,c"}}},
	{id: "ampersand", what: "an ampersand as %26", sent: "region=a%26b", pairs: []pair{{"region", "a&b"}}},
	{id: "equals", what: "an equals sign as %3D", sent: "region=a%3Db", pairs: []pair{{"region", "a=b"}}},
	{id: "reserved", what: "every reserved character", pairs: []pair{{"region", ":/?#[]@!$&'()*+,;="}}},
	{id: "unreserved", what: "unreserved characters left alone", sent: "region=AZaz09-._~", pairs: []pair{{"region", "AZaz09-._~"}}},
	{id: "unreserved_escaped", what: "unreserved characters escaped when sent", sent: "region=%7E%2D%5F%41", pairs: []pair{{"region", "~-_A"}}},
	{id: "lower_case_escapes", what: "escapes in lower case when sent", sent: "region=%c3%a3%2f", pairs: []pair{{"region", "ã/"}}},
	{id: "utf8", what: "UTF-8 of two and three bytes", pairs: []pair{{"region", "São Paulo 日本"}}},
	{id: "utf8_four_bytes", what: "UTF-8 of four bytes", pairs: []pair{{"region", "🛰"}}},
	{id: "escaped_key", what: "a key that is escaped when sent", sent: "re%67ion=a", pairs: []pair{{"region", "a"}}},
	{id: "utf8_key", what: "a key in UTF-8", pairs: []pair{{"línea", "a"}, {"region", "b"}}},
	{id: "prefix_keys", what: "keys that begin like one another", sent: "aa=1&a=1&a-b=1&a.b=1", pairs: []pair{{"a", "1"}, {"a-b", "1"}, {"a.b", "1"}, {"aa", "1"}}},
	{id: "all_filters", what: "every filter of the document", pairs: []pair{{"country_code", "US"}, {"region", "x"}, {"line", "x"}, {"ip_type", "x"}, {"quantity", "1"}, {"duration_days", "30"}, {"page_size", "10"}}},
}

var wrongCanonical = []variant{
	{id: "unsorted", what: "that is not sorted", sent: "region=a&country_code=US", signed: "region=a&country_code=US"},
	{id: "values_unsorted", what: "whose values are not sorted", sent: "region=b&region=a", signed: "region=b&region=a"},
	{id: "merged", what: "that merges a repeated pair", sent: "region=a&region=a", signed: "region=a"},
	{id: "plus_for_space", what: "with a plus sign for %20", sent: "region=New%20York", signed: "region=New+York"},
	{id: "lower_case", what: "with escapes in lower case", sent: "region=a%2Fb", signed: "region=a%2fb"},
	{id: "tilde_escaped", what: "with an escaped tilde", sent: "region=~", signed: "region=%7E"},
	{id: "slash_left", what: "with a bare slash", sent: "region=a/b", signed: "region=a/b"},
	{id: "left_out", what: "that was left out", sent: "region=a", signed: ""},
	{id: "decoded", what: "that is not encoded", sent: "region=S%C3%A3o", signed: "region=São"},
}

var bodyVariants = []variant{
	{id: "spaces", what: "spaces", sent: `{ "proxy_ids" : [ ] }`},
	{id: "line_feeds", what: "line feeds", sent: "{\n\"proxy_ids\":[]\n}"},
	{id: "utf8", what: "UTF-8", sent: `{"proxy_ids":[],"note":"São Paulo 日本"}`},
	{id: "escapes", what: "JSON escapes", sent: `{"proxy_ids":[],"note":"\u00e9\\"}`},
	{id: "member_order", what: "its members in any order", sent: `{"duration_days":30,"proxy_ids":[]}`},
	{id: "empty", what: "no bytes at all", sent: ""},
}

func hostChecks(c *suite) {
	signedFor := func(id, sentence string, host func(*session) string) {
		c.rule("canonical.host."+id, secCanonical, sentence, func(s *session) finding {
			r := s.send(changedBeforeSigning(func(d *draft) { d.host = strings.ToLower(host(s)) }))
			return ok("signed as %s: %s", host(s), r.seen())
		}).open()
	}
	c.rule("canonical.host.upper_case", secCanonical, "the host is signed in lower case however it is sent", func(s *session) finding {
		upper := strings.ToUpper(s.base.Host)
		if upper == s.base.Host {
			return notShown("the host has no letters")
		}
		return signatureAccepted(s.send(changedAfterSigning(func(d *draft) { d.header.Set("Host", upper) })))
	})
	signedFor("with_port", "whether the host is signed with an explicit port", func(s *session) string { return s.base.Host })
	signedFor("without_port", "whether the host is signed without an explicit port", func(s *session) string { return s.base.Hostname() })
	c.rule("canonical.signature.upper_case", secCanonical, "what a signature in upper case gets", changedAfterSigning(func(d *draft) {
		d.header.Set("X-Api-Signature", strings.ToUpper(d.header.Get("X-Api-Signature")))
	}).wants(recorded)).open()
}

func pathChecks(c *suite) {
	for _, id := range [][2]string{{"space", "a b"}, {"slash", "a/b"}, {"utf8", "日本"}, {"percent", "100%"}, {"plus", "a+b"}} {
		for _, resource := range []string{"orders", "proxies"} {
			c.rule("canonical.path."+resource+"."+id[0], secCanonical, "what an identifier of "+resource+" with a "+id[0]+" gets, signed as it is sent",
				get("/api/v1/"+resource+"/"+rfc3986(id[1])).wants(recorded)).open()
		}
	}
}
