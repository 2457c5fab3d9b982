// The signature of a request (API: Authentication).

package upstream

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// CanonicalQuery rewrites a raw query as the API signs it (API: Canonical string). It
// decodes every key and value and percent-encodes it by RFC 3986 with upper-case
// hexadecimal. It then sorts by encoded key and value, in the document's order, and
// keeps repeats. A "+" stays a plus, as in RFC 3986. A "%" that starts no escape is
// literal.
func CanonicalQuery(rawQuery string) string {
	var pairs [][2]string
	for part := range strings.SplitSeq(rawQuery, "&") {
		if part != "" {
			key, value, _ := strings.Cut(part, "=")
			pairs = append(pairs, [2]string{EscapeSegment(percentDecode(key)), EscapeSegment(percentDecode(value))})
		}
	}
	slices.SortFunc(pairs, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	parts := make([]string, len(pairs))
	for i, p := range pairs {
		parts[i] = p[0] + "=" + p[1]
	}
	return strings.Join(parts, "&")
}

// CanonicalString joins the seven signed lines (API: Canonical string). path is the
// escaped path exactly as sent, canonicalQuery comes from [CanonicalQuery], bodySHA256
// from [BodyHash]. The method becomes upper case, the host lower case.
func CanonicalString(method, host, path, canonicalQuery, timestamp, nonce, bodySHA256 string) string {
	return strings.Join([]string{strings.ToUpper(method), strings.ToLower(host), path, canonicalQuery, timestamp, nonce, bodySHA256}, "\n")
}

// BodyHash returns the lower-case hexadecimal SHA-256 of the raw body, line seven of the
// canonical string.
func BodyHash(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// Sign returns the lower-case hexadecimal HMAC-SHA256 of the canonical string under the
// API Secret (API: Authentication).
func Sign(secret, canonical string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(canonical))
	return hex.EncodeToString(mac.Sum(nil))
}

// EscapeSegment percent-encodes one opaque identifier, once, as a path segment. Only RFC
// 3986 unreserved characters stay.
func EscapeSegment(id string) string {
	return strings.ReplaceAll(url.QueryEscape(id), "+", "%20")
}

var escape = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)

func percentDecode(s string) string {
	return escape.ReplaceAllStringFunc(s, func(escaped string) string {
		c, _ := strconv.ParseUint(escaped[1:], 16, 8)
		return string([]byte{byte(c)})
	})
}
