package upstream

import (
	"encoding/base64"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// vector is one line of testdata/signing; its README.md explains the columns.
type vector struct {
	name, secret, method, host, path, query, stamp, nonce string
	body, canonical                                       []byte
	signature                                             string
}

func vectors(t *testing.T) []vector {
	t.Helper()
	raw, err := os.ReadFile("../testdata/signing/vectors.tsv")
	if err != nil {
		t.Fatal(err)
	}
	var out []vector
	for line := range strings.Lines(string(raw)) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != 11 {
			t.Fatalf("%q has %d columns", line, len(f))
		}
		body, errBody := base64.StdEncoding.DecodeString(f[8])
		canonical, errCanonical := base64.StdEncoding.DecodeString(f[9])
		if errBody != nil || errCanonical != nil {
			t.Fatal(errBody, errCanonical)
		}
		out = append(out, vector{f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7], body, canonical, f[10]})
	}
	if len(out) < 150 {
		t.Fatalf("only %d vectors", len(out))
	}
	return out
}

// The lines of the canonical string are compared one by one, so that a failure names the line.
func TestSigningVectorsCanonicalString(t *testing.T) {
	for _, v := range vectors(t) {
		got := CanonicalString(v.method, v.host, v.path, CanonicalQuery(v.query), v.stamp, v.nonce, BodyHash(v.body))
		want := strings.Split(string(v.canonical), "\n")
		for i, line := range strings.Split(got, "\n") {
			if line != want[i] {
				t.Errorf("%s: line %d is %q, want %q", v.name, i+1, line, want[i])
			}
		}
	}
}

// The test signs openssl's canonical string, not ours.
func TestSigningVectorsSignature(t *testing.T) {
	for _, v := range vectors(t) {
		if got := Sign(v.secret, string(v.canonical)); got != v.signature {
			t.Errorf("%s: %s, want %s", v.name, got, v.signature)
		}
	}
}

// The vectors must include every case that they exist for.
func TestSigningVectorsCoverTheRules(t *testing.T) {
	for what, found := range map[string]func(vector) bool{
		"no query":           func(v vector) bool { return v.query == "" },
		"keys out of order":  func(v vector) bool { return v.query == "region=Dallas&country_code=US" },
		"a repeated key":     func(v vector) bool { return strings.Contains(string(v.canonical), "\na=1&a=1\n") },
		"an empty value":     func(v vector) bool { return strings.HasPrefix(v.query, "region=&") },
		"unreserved":         func(v vector) bool { return strings.Contains(v.query, "AZaz09-._~") },
		"UTF-8":              func(v vector) bool { return strings.Contains(v.query, "%C3%A3") },
		"%20":                func(v vector) bool { return strings.Contains(v.query, "%20") },
		"an encoded plus":    func(v vector) bool { return strings.Contains(v.query, "%2B") },
		"a bare slash":       func(v vector) bool { return strings.Contains(v.query, "/") },
		"%2F in a path":      func(v vector) bool { return strings.Contains(v.path, "%2F") },
		"%2f in a path":      func(v vector) bool { return strings.Contains(v.path, "%2f") },
		"an empty body":      func(v vector) bool { return v.method == "POST" && len(v.body) == 0 },
		"a body and a query": func(v vector) bool { return len(v.body) > 0 && v.query != "" },
	} {
		if !slices.ContainsFunc(vectors(t), found) {
			t.Errorf("no vector has %s", what)
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
