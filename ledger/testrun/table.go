package testrun

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Table fails t unless a document has the table head+rows. It finds the document's table by the
// first line of head. document is a path relative to the root of the repository. If the tests run
// with the package's flag -update, Table writes the table into the document instead.
func Table(t testing.TB, document, head, rows string) {
	t.Helper()
	path := filepath.Join(root(t), filepath.FromSlash(document))
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(head, "\n")
	before, rest, found := strings.Cut(string(text), first+"\n")
	if !found {
		t.Fatalf("%s has no table that begins with %s", document, first)
	}
	lines := strings.SplitAfter(rest, "\n")
	end := 0
	for end < len(lines) && strings.HasPrefix(lines[end], "|") {
		end++
	}
	if table := first + "\n" + strings.Join(lines[:end], ""); table == head+rows {
		return
	}
	if update := flag.Lookup("update"); update == nil || update.Value.String() != "true" {
		t.Fatalf("%s has another table than the code: go test this package with -run %s -update", document, t.Name())
	}
	if err := os.WriteFile(path, []byte(before+head+rows+strings.Join(lines[end:], "")), 0o600); err != nil {
		t.Fatal(err)
	}
}

func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the test")
		}
	}
}
