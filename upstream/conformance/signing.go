// The suite's own signature, independent of package upstream.

package conformance

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
)

// pair is one key and value of a query, decoded.
type pair struct{ key, value string }

// rfc3986 percent-encodes all but unreserved characters (API: Canonical string).
func rfc3986(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// canonicalQuery decodes nothing: the suite knows the pairs that it sends.
func canonicalQuery(pairs []pair) string {
	encoded := make([]pair, len(pairs))
	for i, p := range pairs {
		encoded[i] = pair{rfc3986(p.key), rfc3986(p.value)}
	}
	slices.SortStableFunc(encoded, func(a, b pair) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.value, b.value)) })
	var b strings.Builder
	for i, p := range encoded {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(p.key + "=" + p.value)
	}
	return b.String()
}

// signature is the HMAC of the seven lines. bodyHash is line seven.
func signature(secret, method, host, path, query, stamp, nonce, bodyHash string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(strings.Join([]string{method, host, path, query, stamp, nonce, bodyHash}, "\n")))
	return hex.EncodeToString(mac.Sum(nil))
}

func bodyHash(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
