// Checks of the canonical string that a client signs.

package conformance

import (
	"slices"
	"strings"
)

// canonicalChecks check only whether the server accepts the signature. Most of them request
// offers.
func canonicalChecks() []Check {
	offers := func(v variant) request {
		r := get("/api/v1/offers", v.pairs...)
		r.query = v.sent
		return r
	}
	return slices.Concat(each(queryVariants, func(v variant) []Check {
		return []Check{rule("canonical.query."+v.id, secCanonical, "the signature of a query with "+v.what+" is accepted", offers(v).wants(signatureAccepted)).openIf(v.open)}
	}), each(wrongCanonical, func(v variant) []Check {
		r := offers(v).damaged(func(d *draft) { d.canonical = v.signed }, true)
		return []Check{rule("canonical.wrong."+v.id, secCanonical, "a canonical query "+v.what+" is refused with invalid_signature", r.wants(refusing("invalid_signature")))}
	}), each(bodyVariants, func(v variant) []Check {
		return []Check{rule("canonical.body."+v.id, secCanonical, "a body with "+v.what+" is signed exactly as sent", post("/api/v1/proxies/renew", "body", v.sent).wants(signatureAccepted))}
	}), hostChecks(), pathChecks())
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

func hostChecks() []Check {
	signedFor := func(id, sentence string, host func(*session) string) Check {
		return rule("canonical.host."+id, secCanonical, sentence, func(s *session) finding {
			r := s.send(changedBeforeSigning(func(d *draft) { d.host = strings.ToLower(host(s)) }))
			return ok("signed as %s: %s", host(s), r.seen())
		}).open()
	}
	return []Check{
		rule("canonical.host.upper_case", secCanonical, "the host is signed in lower case however it is sent", func(s *session) finding {
			upper := strings.ToUpper(s.base.Host)
			if upper == s.base.Host {
				return notShown("the host has no letters")
			}
			return signatureAccepted(s.send(changedAfterSigning(func(d *draft) { d.header.Set("Host", upper) })))
		}),
		signedFor("with_port", "whether the host is signed with an explicit port", func(s *session) string { return s.base.Host }),
		signedFor("without_port", "whether the host is signed without an explicit port", func(s *session) string { return s.base.Hostname() }),
		rule("canonical.signature.upper_case", secCanonical, "what a signature in upper case gets", changedAfterSigning(func(d *draft) {
			d.header.Set("X-Api-Signature", strings.ToUpper(d.header.Get("X-Api-Signature")))
		}).wants(recorded)).open(),
	}
}

// pathChecks record how the server treats escaped paths, because the API document does not say.
func pathChecks() []Check {
	return each([][2]string{{"space", "a b"}, {"slash", "a/b"}, {"utf8", "日本"}, {"percent", "100%"}, {"plus", "a+b"}}, func(id [2]string) []Check {
		return each([]string{"orders", "proxies"}, func(resource string) []Check {
			return []Check{rule("canonical.path."+resource+"."+id[0], secCanonical, "what an identifier of "+resource+" with a "+id[0]+" gets, signed as it is sent",
				get("/api/v1/"+resource+"/"+rfc3986(id[1])).wants(recorded)).open()}
		})
	})
}
