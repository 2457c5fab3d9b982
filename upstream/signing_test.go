package upstream

import (
	"encoding/base64"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The vectors were made with openssl; testdata/signing/generate.sh says how.
func TestSigningVectors(t *testing.T) {
	raw, err := os.ReadFile("../testdata/signing/vectors.tsv")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
	if len(lines) < 60 {
		t.Fatalf("only %d vectors", len(lines))
	}
	for _, line := range lines {
		f := strings.Split(line, "\t")
		if len(f) != 11 {
			t.Fatalf("%q has %d fields", line, len(f))
		}
		body, err := base64.StdEncoding.DecodeString(f[8])
		if err != nil {
			t.Fatal(err)
		}
		want, err := base64.StdEncoding.DecodeString(f[9])
		if err != nil {
			t.Fatal(err)
		}
		got := CanonicalString(f[2], f[3], f[4], CanonicalQuery(f[5]), f[6], f[7], BodyHash(body))
		if got != string(want) {
			t.Errorf("%s: canonical string\n%s\nwant\n%s", f[0], got, want)
		}
		if sig := Sign(f[1], got); sig != f[10] {
			t.Errorf("%s: signature %s, want %s", f[0], sig, f[10])
		}
	}
}

func TestTrap35QueryIsRFC3986(t *testing.T) {
	for raw, want := range map[string]string{
		"":               "",
		"b=2&a=1":        "a=1&b=2",
		"a=%7e%2d&a=%2f": "a=%2F&a=~-",
		"a=New%20York":   "a=New%20York",
		"a=1+2":          "a=1%2B2",
		"a":              "a=",
		"a=1&&b=":        "a=1&b=",
		"a=%zz":          "a=%25zz",
		"a=b=c":          "a=b%3Dc",
		"a=2&a=10&a=2":   "a=10&a=2&a=2",
	} {
		if got := CanonicalQuery(raw); got != want {
			t.Errorf("%q: %q, want %q", raw, got, want)
		}
	}
}

func TestCanonicalQueryIsItsOwnCanonicalForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		once := CanonicalQuery(rapid.String().Draw(t, "query"))
		if twice := CanonicalQuery(once); twice != once {
			t.Fatalf("%q became %q", once, twice)
		}
	})
}
