// Checks of the canonical string that is signed.

package conformance

import (
	"fmt"
	"net/http"
	"strings"
)

// canonicalChecks are the contents of the seven lines. They ask for offers, with a
// query as it stands and signed as the document says; what counts is whether the
// signature is accepted, not what is found.
func canonicalChecks() []Check {
	out := make([]Check, 0, 48)
	for _, v := range queryVariants {
		out = append(out, Check{ID: "canonical.query." + v.id, Section: secCanonical, Open: v.open, Sentence: "the signature of a query with " + v.what + " is accepted",
			run: request{method: http.MethodGet, path: "/api/v1/offers", pairs: v.pairs, query: v.sent}.wants(signatureAccepted)})
	}
	for _, v := range wrongCanonical {
		out = append(out, Check{ID: "canonical.wrong." + v.id, Section: secCanonical, Sentence: "a canonical query " + v.what + " is refused with invalid_signature",
			run: request{method: http.MethodGet, path: "/api/v1/offers", pairs: v.pairs, query: v.sent, resign: true,
				damage: func(d *draft) { d.canonical = v.signed }}.wants(refusing("invalid_signature"))})
	}
	for _, v := range bodyVariants {
		out = append(out, Check{ID: "canonical.body." + v.id, Section: secCanonical, Sentence: "a body with " + v.what + " is signed exactly as sent",
			run: post("/api/v1/proxies/renew", "body", v.body).wants(signatureAccepted)})
	}
	return append(append(out, hostChecks()...), pathChecks()...)
}

type variant struct {
	id, what string
	sent     string // empty: the canonical form
	pairs    []pair
	signed   string // of wrongCanonical
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

var bodyVariants = []struct{ id, what, body string }{
	{"spaces", "spaces", `{ "proxy_ids" : [ ] }`},
	{"line_feeds", "line feeds", "{\n\"proxy_ids\":[]\n}"},
	{"utf8", "UTF-8", `{"proxy_ids":[],"note":"São Paulo 日本"}`},
	{"escapes", "JSON escapes", `{"proxy_ids":[],"note":"\u00e9\\"}`},
	{"member_order", "its members in any order", `{"duration_days":30,"proxy_ids":[]}`},
	{"empty", "no bytes at all", ""},
}

func hostChecks() []Check {
	return []Check{
		{ID: "canonical.host.upper_case", Section: secCanonical, Sentence: "the host is signed in lower case however it is sent", run: func(s *session) finding {
			upper := strings.ToUpper(s.base.Host)
			if upper == s.base.Host {
				return notShown("the host has no letters")
			}
			return signatureAccepted(s.send(request{method: http.MethodGet, path: "/api/v1/account", damage: func(d *draft) { d.header.Set("Host", upper) }}))
		}},
		{ID: "canonical.host.with_port", Section: secCanonical, Open: true, Sentence: "whether the host is signed with an explicit port", run: func(s *session) finding {
			return s.signedWith(s.base.Host)
		}},
		{ID: "canonical.host.without_port", Section: secCanonical, Open: true, Sentence: "whether the host is signed without an explicit port", run: func(s *session) finding {
			return s.signedWith(s.base.Hostname())
		}},
		{ID: "canonical.signature.upper_case", Section: secCanonical, Open: true, Sentence: "what a signature in upper case gets", run: request{method: http.MethodGet, path: "/api/v1/account", damage: func(d *draft) {
			d.header.Set("X-Api-Signature", strings.ToUpper(d.header.Get("X-Api-Signature")))
		}}.wants(recorded)},
	}
}

func (s *session) signedWith(host string) finding {
	r := s.send(request{method: http.MethodGet, path: "/api/v1/account", resign: true, damage: func(d *draft) { d.host = strings.ToLower(host) }})
	return ok("signed as %s: %s", host, r.seen())
}

// pathChecks are opaque identifiers in paths. The document does not say whether the
// signed path is escaped; this is what a server makes of the escaped one.
func pathChecks() []Check {
	out := make([]Check, 0, 10)
	for _, id := range []struct{ name, id string }{{"space", "a b"}, {"slash", "a/b"}, {"utf8", "日本"}, {"percent", "100%"}, {"plus", "a+b"}} {
		for _, resource := range []string{"orders", "proxies"} {
			out = append(out, Check{ID: fmt.Sprintf("canonical.path.%s.%s", resource, id.name), Section: secCanonical, Open: true,
				Sentence: fmt.Sprintf("what an identifier of %s with a %s gets, signed as it is sent", resource, id.name),
				run:      get("/api/v1/" + resource + "/" + rfc3986(id.id)).wants(recorded)})
		}
	}
	return out
}
