// The signature of a request (API: Authentication).

package upstream

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// CanonicalQuery rewrites a raw query as the API signs it (API: Canonical
// string): every key and value decoded, percent-encoded again by RFC 3986 with
// upper-case hexadecimal, then sorted by key and by value as encoded (the order
// in which the document says it), repeats kept. A "+" stands for itself: RFC 3986
// knows no other reading. A "%" that starts no escape is taken literally.
func CanonicalQuery(rawQuery string) string {
	if rawQuery == "" {
		return ""
	}
	type pair struct{ key, value string }
	var pairs []pair
	for part := range strings.SplitSeq(rawQuery, "&") {
		if part == "" {
			continue
		}
		key, value, _ := strings.Cut(part, "=")
		pairs = append(pairs, pair{EscapeSegment(percentDecode(key)), EscapeSegment(percentDecode(value))})
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		if c := strings.Compare(a.key, b.key); c != 0 {
			return c
		}
		return strings.Compare(a.value, b.value)
	})
	var b strings.Builder
	b.Grow(len(rawQuery) + 16)
	for i, p := range pairs {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(p.key)
		b.WriteByte('=')
		b.WriteString(p.value)
	}
	return b.String()
}

// CanonicalString joins the seven signed lines (API: Canonical string). path is
// the escaped path exactly as sent, canonicalQuery comes from [CanonicalQuery],
// bodySHA256 from [BodyHash]. Method is upper-cased, host lower-cased.
func CanonicalString(method, host, path, canonicalQuery, timestamp, nonce, bodySHA256 string) string {
	var b strings.Builder
	b.Grow(len(method) + len(host) + len(path) + len(canonicalQuery) + len(timestamp) + len(nonce) + len(bodySHA256) + 6)
	b.WriteString(strings.ToUpper(method))
	for _, line := range [...]string{strings.ToLower(host), path, canonicalQuery, timestamp, nonce, bodySHA256} {
		b.WriteByte('\n')
		b.WriteString(line)
	}
	return b.String()
}

// BodyHash is the lower-case hexadecimal SHA-256 of the raw body, line seven of
// the canonical string.
func BodyHash(body []byte) string {
	if len(body) == 0 {
		return emptyHash
	}
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

const emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// Sign is the lower-case hexadecimal HMAC-SHA256 of the canonical string under
// the API Secret (API: Authentication).
func Sign(secret, canonical string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(canonical))
	var sum [sha256.Size]byte
	return hex.EncodeToString(mac.Sum(sum[:0]))
}

// EscapeSegment percent-encodes one opaque identifier for use as a path
// segment, once, leaving only RFC 3986 unreserved characters.
func EscapeSegment(id string) string {
	for i := range len(id) {
		if !unreserved(id[i]) {
			var b strings.Builder
			writeEncoded(&b, id)
			return b.String()
		}
	}
	return id
}

const upperHex = "0123456789ABCDEF"

func writeEncoded(b *strings.Builder, s string) {
	for i := range len(s) {
		if c := s[i]; unreserved(c) {
			b.WriteByte(c)
		} else {
			b.WriteByte('%')
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
		}
	}
}

func unreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
		c == '-' || c == '.' || c == '_' || c == '~'
}

func percentDecode(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			hi, lo := unhex(s[i+1]), unhex(s[i+2])
			if hi >= 0 && lo >= 0 {
				out = append(out, byte(hi<<4|lo))
				i += 2
				continue
			}
		}
		out = append(out, s[i])
	}
	return string(out)
}

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
