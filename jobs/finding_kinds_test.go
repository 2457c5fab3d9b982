package jobs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// kindsInCode returns the kinds of findings that the code makes, by constant name. A kind
// written as a literal would not be listed.
func kindsInCode(t *testing.T) map[string]bool {
	t.Helper()
	var files []string
	for _, pattern := range []string{"*.go", "decide/*.go", "reconcile/*.go"} {
		found, err := filepath.Glob(pattern)
		check(t, err)
		files = append(files, found...)
	}
	constants, used := map[string]string{}, map[string]bool{}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		check(t, err)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i, name := range n.Names {
					if i < len(n.Values) && strings.HasPrefix(name.Name, "Finding") {
						if text, ok := n.Values[i].(*ast.BasicLit); ok && text.Kind == token.STRING {
							constants[name.Name], _ = strconv.Unquote(text.Value)
						}
					}
				}
			case *ast.CompositeLit:
				for _, e := range n.Elts {
					if pair, ok := e.(*ast.KeyValueExpr); ok && isFinding(n) {
						if key, ok := pair.Key.(*ast.Ident); ok && (key.Name == "Kind" || key.Name == "Finding") {
							used[kindOf(t, path, pair.Value)] = true
						}
					}
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "doubt" {
					used[kindOf(t, path, n.Args[0])] = true
				}
			}
			return true
		})
	}
	kinds := map[string]bool{}
	for name := range used {
		if text := constants[name]; text != "" { // the others are kinds of operation
			kinds[text] = true
		}
	}
	return kinds
}

// isFinding reports whether the literal is a finding, or an element without a type in a list
// of findings.
func isFinding(n *ast.CompositeLit) bool {
	switch of := n.Type.(type) {
	case nil:
		return true
	case *ast.Ident:
		return of.Name == "Finding"
	case *ast.SelectorExpr:
		return of.Sel.Name == "LedgerDiscrepancy"
	}
	return false
}

// kindOf returns the constant that gives a finding's kind, or "" if the kind comes from
// another finding or a parameter.
func kindOf(t *testing.T, path string, value ast.Expr) string {
	t.Helper()
	switch v := value.(type) {
	case *ast.Ident:
		if strings.HasPrefix(v.Name, "Finding") {
			return v.Name
		}
	case *ast.SelectorExpr:
		if strings.HasPrefix(v.Sel.Name, "Finding") {
			return v.Sel.Name
		}
	case *ast.BasicLit:
		t.Errorf("%s writes the kind %s out: give it a constant", path, v.Value)
	}
	return ""
}

var kindRow = regexp.MustCompile("^\\| (`[a-z_`, ]+`) \\| [^|]+ \\| [^|]+ \\|$")

// The docs explain each kind of finding and what to do about it, and name no other kinds.
func TestEveryKindOfFindingIsInTheDocs(t *testing.T) {
	page, err := os.ReadFile("../docs/operations.md")
	check(t, err)
	_, section, _ := strings.Cut(string(page), "\n## Books and provider differ\n")
	section, _, _ = strings.Cut(section, "\n## ")
	listed := map[string]bool{}
	for line := range strings.Lines(section) {
		if m := kindRow.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			for name := range strings.SplitSeq(m[1], ", ") {
				listed[strings.Trim(name, "`")] = true
			}
		}
	}
	inCode := kindsInCode(t)
	if len(inCode) < 10 {
		t.Fatalf("only %v were found", inCode)
	}
	if !maps.Equal(listed, inCode) {
		t.Errorf("the docs list %q\nand the code has %q", slices.Sorted(maps.Keys(listed)), slices.Sorted(maps.Keys(inCode)))
	}
}
