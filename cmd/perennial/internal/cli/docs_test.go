package cli

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"perennial/ledger/fact"
	"perennial/testdata/declared"
)

// Tables of threats and faults cite tests as their proof.
func TestEveryTestThatADocumentNamesExists(t *testing.T) {
	have := tests(t)
	named := 0
	for _, page := range []string{"testdata/threats/README.md", "testdata/faults/README.md", "testdata/planted/README.md"} {
		text, err := os.ReadFile("../../../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("`((?:Test|Fuzz|Benchmark)[A-Z][A-Za-z0-9]*)`").FindAllStringSubmatch(string(text), -1) {
			named++
			if !strings.Contains(have, "func "+m[1]+"(") {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
	}
	if named < 60 {
		t.Errorf("only %d tests are named", named)
	}
}

// tests returns the text of every test file.
func tests(t *testing.T) string {
	t.Helper()
	var code strings.Builder
	err := filepath.WalkDir("../../../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		code.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return code.String()
}

// The page marks the traps that are not handled yet.
func TestEveryTrapOfThePageHasATest(t *testing.T) {
	have, traps := tests(t), 0
	for line := range strings.Lines(text(t, "../../../../testdata/traps/README.md")) {
		m := regexp.MustCompile(`^\| (\d\d) \|`).FindStringSubmatch(line)
		if m == nil {
			continue
		}
		traps++
		named := regexp.MustCompile(`func TestTrap(\d\dAnd)*` + m[1]).MatchString(have)
		if named == strings.Contains(line, "Not kept yet") {
			t.Errorf("trap %s has a test: %t", m[1], named)
		}
	}
	if traps < 60 {
		t.Errorf("the page has %d traps", traps)
	}
}

func text(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The test finds `package.Name` and `package.Type.Member` in the pages that explain the code.
func TestEverySymbolThatADocumentNamesExists(t *testing.T) {
	symbols, packages := declarations(t)
	facts, named := fact.Types(), 0
	for _, page := range []string{"docs/decisions/0016-pure-packages.md", "CONTRIBUTING.md", "docs/state-machine.md"} {
		for _, m := range regexp.MustCompile("`([a-z]+)\\.([A-Za-z]+(?:\\.[A-Za-z]+)?)`").FindAllStringSubmatch(text(t, "../../../../"+page), -1) {
			if !packages[m[1]] || facts[m[1]+"."+m[2]] != nil {
				continue // a file name, or a fact type
			}
			named++
			if symbol := m[1] + "." + m[2]; !symbols[symbol] {
				t.Errorf("%s names %s, which does not exist", page, symbol)
			}
		}
	}
	if named < 40 {
		t.Errorf("only %d symbols are named", named)
	}
}

// declarations returns the functions, methods, types, constants and variables of the program, each
// prefixed with its package.
func declarations(t *testing.T) (symbols, packages map[string]bool) {
	t.Helper()
	symbols, packages = map[string]bool{}, map[string]bool{}
	err := filepath.WalkDir("../../../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		packages[file.Name.Name] = true
		for _, d := range file.Decls {
			for _, name := range declared.Names(d) {
				symbols[file.Name.Name+"."+name] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return symbols, packages
}
