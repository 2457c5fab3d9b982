package conformance

import (
	"encoding/base64"
	"net/url"
	"os"
	"strings"
	"testing"
)

// The suite's own signing is compared with vectors from openssl, separately for the canonical
// string and the signature.
func TestOwnSigningAgreesWithOpenSSL(t *testing.T) {
	raw, err := os.ReadFile("../../testdata/signing/vectors.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		body, _ := base64.StdEncoding.DecodeString(f[8])
		want, _ := base64.StdEncoding.DecodeString(f[9])
		lines := strings.Split(string(want), "\n")
		if got := canonicalQuery(decodedPairs(t, f[5])); got != lines[3] {
			t.Errorf("%s: query %q, want %q", f[0], got, lines[3])
		}
		if got := bodyHash(body); got != lines[6] {
			t.Errorf("%s: body hash %s, want %s", f[0], got, lines[6])
		}
		if got := signature(f[1], strings.ToUpper(f[2]), strings.ToLower(f[3]), f[4], lines[3], f[6], f[7], lines[6]); got != f[10] {
			t.Errorf("%s: signature %s, want %s", f[0], got, f[10])
		}
	}
}

func decodedPairs(t *testing.T, query string) []pair {
	var out []pair
	for part := range strings.SplitSeq(query, "&") {
		if part == "" {
			continue
		}
		key, value, _ := strings.Cut(part, "=")
		k, errKey := url.PathUnescape(key)
		v, errValue := url.PathUnescape(value)
		if errKey != nil || errValue != nil {
			t.Fatalf("%q", query)
		}
		out = append(out, pair{k, v})
	}
	return out
}

func TestValuesAreWhatTheDocumentCallsThem(t *testing.T) {
	for text, want := range map[string]bool{"2026-11-21T12:00:00Z": true, "2026-11-21T12:00:00.123+08:00": true, "2026-11-21T12:00:00+0000": true,
		"2026-11-21T12:00:00": false, "2026-11-21": false, "12:00Z": false, "": false} {
		if instant.fits(text) != want {
			t.Errorf("%q", text)
		}
	}
	for text, cents := range map[string]int64{"3.00": 300, "3": 300, "3.0": 300, "-0.05": -5, "90071992547409.93": 9007199254740993} {
		if !agrees(text, cents) || agrees(text, cents+1) {
			t.Errorf("%q", text)
		}
	}
	for _, text := range []string{"3e2", "300/1", "", "3,00", " 3.00"} {
		if agrees(text, 300) {
			t.Errorf("%q", text)
		}
	}
}
