// Bugs in functions are compiled together, because building takes most of the time of a bug that is
// built alone. Each function gets one copy for each of its bugs. An environment variable of the
// test process says which copy is called.

package planted

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// chosen is the environment variable with the number of the bug. Processes that a test starts
// inherit it.
const chosen = "PLANTED_BUG"

// chooser is added to each package that has bugs.
const chooser = "package %s\n\nimport \"os\"\n\nvar plantedBug = os.Getenv(\"" + chosen + "\")\n"

// together holds the bugs that are compiled together, and the test programs.
type together struct {
	dir      string
	overlay  string
	numbers  map[string]string // by the bug's name
	programs map[string]func() (string, error)
	mu       sync.Mutex
}

// An insertion puts text into a file at an offset.
type insertion struct {
	at   int
	text string
}

// plantTogether writes the overlay of all bugs that can be compiled together.
func plantTogether(t *testing.T) *together {
	t.Helper()
	all := &together{dir: t.TempDir(), numbers: map[string]string{}, programs: map[string]func() (string, error){}}
	inserted := map[string][]insertion{}
	for i, b := range bugs {
		number := strconv.Itoa(i + 1)
		if into, ok := b.beside(t, number); ok {
			all.numbers[b.name] = number
			file := b.place(t).file
			inserted[file] = append(inserted[file], into...)
		}
	}
	texts := map[string]string{}
	for file, into := range inserted {
		text := read(t, filepath.Join(root, file))
		slices.SortStableFunc(into, func(a, b insertion) int { return b.at - a.at }) // from the end
		for _, in := range into {
			text = text[:in.at] + in.text + text[in.at:]
		}
		texts[file] = text
		texts[filepath.Join(filepath.Dir(file), "zz_planted.go")] = fmt.Sprintf(chooser, packageOf(t, file))
	}
	all.overlay = overlayOf(t, all.dir, texts)
	return all
}

// overlayOf writes changed files of the tree to dir. It also writes the overlay that tells the go
// tool where each belongs, and returns its path.
func overlayOf(t *testing.T, dir string, texts map[string]string) string {
	t.Helper()
	replace := map[string]string{}
	for file, text := range texts {
		path, err := filepath.Abs(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		replace[path] = filepath.Join(dir, strconv.Itoa(len(replace))+".go")
		save(t, replace[path], text)
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	save(t, overlay, string(text))
	return overlay
}

func packageOf(t *testing.T, file string) string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.PackageClauseOnly)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.Name.Name
}

// beside returns the bug's copy of the function and the call to it. It returns !ok if the bug is
// not in a function's body, or if the function cannot be called with the names of its parameters.
func (b bug) beside(t *testing.T, number string) (into []insertion, ok bool) {
	t.Helper()
	at := b.place(t)
	if !strings.HasSuffix(at.file, ".go") || b.in == "" {
		return nil, false
	}
	set, text := token.NewFileSet(), read(t, filepath.Join(root, at.file))
	parsed, err := parser.ParseFile(set, at.file, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	offset := func(p token.Pos) int { return set.Position(p).Offset }
	for _, d := range parsed.Decls {
		f, isFunc := d.(*ast.FuncDecl)
		if !isFunc || offset(f.Pos()) != at.from {
			continue
		}
		begin, end := offset(f.Body.Lbrace)+1, offset(f.Body.Rbrace)
		call, callable := callOf(f, "_planted"+number)
		if body := text[begin:end]; callable && strings.Count(body, b.old) == 1 {
			name := offset(f.Name.End())
			changed := text[at.from:name] + "_planted" + number + text[name:begin] + strings.Replace(body, b.old, b.new, 1) + "}"
			return []insertion{{begin, fmt.Sprintf("\nif plantedBug == %q {\n%s\n}\n", number, call)}, {end + 1, "\n\n" + changed + "\n"}}, true
		}
	}
	return nil, false
}

// callOf returns the statement that calls the copy of f with f's parameters.
func callOf(f *ast.FuncDecl, suffix string) (call string, ok bool) {
	name := f.Name.Name + suffix
	if f.Recv != nil {
		names := f.Recv.List[0].Names
		if len(names) == 0 || names[0].Name == "_" {
			return "", false
		}
		name = names[0].Name + "." + name
	}
	var args []string
	for _, field := range f.Type.Params.List {
		dots := ""
		if _, variadic := field.Type.(*ast.Ellipsis); variadic {
			dots = "..."
		}
		for _, n := range field.Names {
			args = append(args, n.Name+dots)
		}
		if len(field.Names) == 0 {
			return "", false
		}
	}
	if slices.Contains(args, "_") || f.Type.TypeParams != nil || f.Name.Name == "init" {
		return "", false
	}
	call = name + "(" + strings.Join(args, ", ") + ")"
	if f.Type.Results != nil {
		return "return " + call, true
	}
	return call + "\nreturn", true
}

// program builds the tests of a package with all the bugs, once.
func (all *together) program(pkg string) (string, error) {
	all.mu.Lock()
	build := all.programs[pkg]
	if build == nil {
		program := filepath.Join(all.dir, strings.ReplaceAll(pkg, "/", "_")+".test")
		build = sync.OnceValues(func() (string, error) {
			cmd := exec.Command("go", append([]string{"test", "-tags", "check", "-c", "-o", program, "-overlay", all.overlay, "-vet", "off", pkg}, cheap...)...)
			cmd.Dir = root
			if out, err := cmd.CombinedOutput(); err != nil {
				return "", errors.Join(err, errors.New(string(out)))
			}
			return program, nil
		})
		all.programs[pkg] = build
	}
	all.mu.Unlock()
	return build()
}

// test returns the command that runs the package's tests with the bug.
func (all *together) test(t *testing.T, b bug, pkg string) *exec.Cmd {
	t.Helper()
	program, err := all.program(pkg)
	if err != nil {
		t.Fatalf("%s with all bugs: %v", pkg, err)
	}
	cmd := exec.Command(program, append([]string{"-test.paniconexit0", "-test.failfast", "-test.timeout", "100s", "-test.run", b.tests()}, flags[pkg]...)...)
	cmd.Dir, cmd.Env = filepath.Join(root, pkg), append(os.Environ(), chosen+"="+all.numbers[b.name])
	return cmd
}
