// The suite's own signature, independent of package upstream.

package conformance

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sort"
	"strings"
)

// pair is one key and value of a query, decoded.
type pair struct{ key, value string }

// rfc3986 percent-encodes all but unreserved characters (API: Canonical string).
func rfc3986(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// canonicalQuery decodes nothing: the suite knows the pairs that it sends.
func canonicalQuery(pairs []pair) string {
	parts := make([][2]string, 0, len(pairs))
	for _, p := range pairs {
		parts = append(parts, [2]string{rfc3986(p.key), rfc3986(p.value)})
	}
	sort.SliceStable(parts, func(i, j int) bool {
		if parts[i][0] != parts[j][0] {
			return parts[i][0] < parts[j][0]
		}
		return parts[i][1] < parts[j][1]
	})
	text := make([]string, 0, len(parts))
	for _, p := range parts {
		text = append(text, p[0]+"="+p[1])
	}
	return strings.Join(text, "&")
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
