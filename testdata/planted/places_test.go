package planted

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"perennial/testdata/declared"
)

// A place is the part of a file in which a bug is planted: a declaration, or the whole file if the
// bug names one. from and to are byte offsets.
type place struct {
	file     string
	from, to int
}

// place returns where the bug is planted.
func (b bug) place(t *testing.T) place {
	t.Helper()
	if b.in == "" {
		return place{file: b.file, to: len(read(t, filepath.Join(root, b.file)))}
	}
	at, ok := tree(t).places[b.in]
	if !ok {
		t.Fatalf("%s: the program declares no %s", b.name, b.in)
	}
	return at
}

// sourceTree holds the declarations of the module, and the tests of each directory.
type sourceTree struct {
	places map[string]place    // of package.Name and package.Type.Member
	tests  map[string][]string // "func TestName" of each test, by directory
}

var declaredTest = regexp.MustCompile(`(?m)^func (Test|Fuzz)\w+`)

var readTree = sync.OnceValues(func() (sourceTree, error) {
	all := sourceTree{places: map[string]place{}, tests: map[string][]string{}}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file := strings.TrimPrefix(filepath.ToSlash(path), root+"/")
		if strings.HasSuffix(path, "_test.go") {
			dir := "./" + filepath.ToSlash(filepath.Dir(file))
			all.tests[dir] = append(all.tests[dir], declaredTest.FindAllString(string(text), -1)...)
			return nil
		}
		return all.declare(file, text)
	})
	return all, err
})

func tree(t *testing.T) sourceTree {
	t.Helper()
	all, err := readTree()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// declare adds the declarations of a file.
func (s sourceTree) declare(file string, text []byte) error {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, d := range parsed.Decls {
		at := place{file, set.Position(d.Pos()).Offset, set.Position(d.End()).Offset + 1} // including the end of the line
		for _, name := range declared.Names(d) {
			s.places[parsed.Name.Name+"."+name] = at
		}
	}
	return nil
}

// pkgs returns the packages whose tests must notice the bug. The bug's own package comes first,
// then every other with a matching test, and the tests of processes last, because they are the
// slowest.
func (b bug) pkgs(t *testing.T) []string {
	t.Helper()
	named := regexp.MustCompile("^func ((Test|Fuzz).*(" + b.tests() + "))|^func (" + b.tests() + ")")
	own := "./" + strings.TrimSuffix(filepath.ToSlash(filepath.Dir(b.place(t).file)), "/migrations")
	var have []string
	for dir, tests := range tree(t).tests {
		if dir != own && slices.ContainsFunc(tests, named.MatchString) {
			have = append(have, dir)
		}
	}
	slices.Sort(have)
	const processes = "./cmd/perennial/internal/crashtest"
	if i := slices.Index(have, processes); i >= 0 {
		have = append(slices.Delete(have, i, i+1), processes)
	}
	if slices.ContainsFunc(tree(t).tests[own], named.MatchString) {
		have = slices.Insert(have, 0, own)
	}
	return have
}

// where returns the place as the page shows it.
func (b bug) where() string { return b.in + b.file }
