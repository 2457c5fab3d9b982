package sandbox_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// symbolsOf collects the names that a package's non-test files declare: functions, methods as
// Type.method, types, constants, variables, and fields as Type.field.
func symbolsOf(t *testing.T, dir, prefix string, into map[string]bool) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %v", dir, err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			for _, name := range declared(d) {
				into[prefix+name] = true
			}
		}
	}
}

func declared(d ast.Decl) (names []string) {
	if f, ok := d.(*ast.FuncDecl); ok {
		if f.Recv == nil {
			return []string{f.Name.Name}
		}
		return []string{receiver(f.Recv.List[0].Type) + "." + f.Name.Name}
	}
	g, _ := d.(*ast.GenDecl)
	for _, s := range g.Specs {
		switch s := s.(type) {
		case *ast.ValueSpec:
			for _, n := range s.Names {
				names = append(names, n.Name)
			}
		case *ast.TypeSpec:
			names = append(names, s.Name.Name)
			if st, ok := s.Type.(*ast.StructType); ok {
				for _, f := range st.Fields.List {
					for _, n := range f.Names {
						names = append(names, s.Name.Name+"."+n.Name)
					}
				}
			}
		}
	}
	return names
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// For each assumption and extension, README.md names a place in the code, and the place exists.
func TestThePageNamesWhatExists(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	symbols := map[string]bool{}
	symbolsOf(t, ".", "", symbols)
	symbolsOf(t, "..", "upstream.", symbols)
	symbolsOf(t, filepath.Join("..", "..", "ledger", "connlimit"), "connlimit.", symbols)
	quoted := regexp.MustCompile("`([^`]+)`")
	section, rows := "", map[string]int{}
	for line := range strings.Lines(string(page)) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = strings.TrimSpace(title)
		}
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| what") || section != "Assumed" && section != "Extension" {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		where := quoted.FindAllStringSubmatch(cells[len(cells)-1], -1)
		if len(where) == 0 {
			t.Errorf("no place in the code: %s", line)
		}
		for _, w := range where {
			if !symbols[w[1]] {
				t.Errorf("%s is not in the code: %s", w[1], line)
			}
		}
		rows[section]++
	}
	if rows["Assumed"] < 40 || rows["Extension"] < 10 {
		t.Errorf("the page lists %v", rows)
	}
}
