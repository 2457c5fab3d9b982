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

// CanonicalQuery rewrites a raw query as the API signs it (API: Canonical
// string): every key and value decoded, percent-encoded again by RFC 3986 with
// upper-case hexadecimal, then sorted by key and by value as encoded (the order
// in which the document says it), repeats kept. A "+" represents itself: RFC 3986
// knows no other reading. A "%" that starts no escape is taken literally.
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

// CanonicalString joins the seven signed lines (API: Canonical string). path is
// the escaped path exactly as sent, canonicalQuery comes from [CanonicalQuery],
// bodySHA256 from [BodyHash]. Method is upper-cased, host lower-cased.
func CanonicalString(method, host, path, canonicalQuery, timestamp, nonce, bodySHA256 string) string {
	return strings.Join([]string{strings.ToUpper(method), strings.ToLower(host), path, canonicalQuery, timestamp, nonce, bodySHA256}, "\n")
}

// BodyHash is the lower-case hexadecimal SHA-256 of the raw body, line seven of
// the canonical string.
func BodyHash(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// Sign is the lower-case hexadecimal HMAC-SHA256 of the canonical string under
// the API Secret (API: Authentication).
func Sign(secret, canonical string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(canonical))
	return hex.EncodeToString(mac.Sum(nil))
}

// EscapeSegment percent-encodes one opaque identifier for use as a path
// segment, once, leaving only RFC 3986 unreserved characters.
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
