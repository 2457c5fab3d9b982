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

// CanonicalQuery returns a raw query in the form that the client signs (API: Canonical string).
// It decodes each key and value, and encodes them by RFC 3986 with upper-case hexadecimal. It
// sorts by the encoded keys and values, as the API document requires. It keeps repeated keys. A
// "+" is a plus sign, as in RFC 3986. A "%" without two hexadecimal digits is a percent sign.
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

// CanonicalString joins the seven lines that the client signs (API: Canonical string). path is
// the escaped path of the request. canonicalQuery is a result of [CanonicalQuery], and
// bodySHA256 is a result of [BodyHash]. The method becomes upper case and the host becomes
// lower case.
func CanonicalString(method, host, path, canonicalQuery, timestamp, nonce, bodySHA256 string) string {
	return strings.Join([]string{strings.ToUpper(method), strings.ToLower(host), path, canonicalQuery, timestamp, nonce, bodySHA256}, "\n")
}

// BodyHash returns the SHA-256 of the raw body in lower-case hexadecimal. The hash is the
// seventh line of the canonical string.
func BodyHash(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// Sign returns the HMAC-SHA256 of the canonical string in lower-case hexadecimal. The key is
// the API Secret (API: Authentication).
func Sign(secret, canonical string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(canonical))
	return hex.EncodeToString(mac.Sum(nil))
}

// EscapeSegment percent-encodes a path segment, or a key or value of a query. Only the
// unreserved characters of RFC 3986 stay unchanged.
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
