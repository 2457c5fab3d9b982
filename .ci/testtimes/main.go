// Testtimes prints a run of `go test -json` as `go test` prints it. It then prints the ten
// longest tests, the tests that became slower than in the record, and the counts.
//
//	go test -json ./... | go run ./.ci/testtimes [-update] .ci/testtimes/record.tsv
//
// The record has a line for each test: package, test, seconds. Machines differ in speed, so
// the pace of a run is the median ratio of its times to the recorded times. A test became
// slower if it took more than 1.5 times its recorded time, multiplied by the pace. -update
// writes a new record. The exit code is 1 if a test failed.
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
)

// event is a line of `go test -json` (see go doc test2json).
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // seconds
}

type test struct {
	pkg, name string
	seconds   float64
}

func main() {
	update := flag.Bool("update", false, "write a new record")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: go test -json ./... | testtimes [-update] RECORD")
		os.Exit(2)
	}
	r, err := read(os.Stdin, os.Stdout)
	if err == nil && *update && r.failed == 0 {
		err = r.write(flag.Arg(0))
	}
	if err == nil {
		err = r.report(os.Stdout, flag.Arg(0))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testtimes:", err)
		os.Exit(1)
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
	if r.failed > 0 {
		os.Exit(1)
	}
}

type run struct {
	tests                   []test
	passed, failed, skipped int
	failedIn                map[string]bool // packages with a test that failed
}

// read collects the tests of a run, and prints the output of packages, builds and failed
// tests.
func read(in io.Reader, out io.Writer) (r run, err error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	said := map[string]*strings.Builder{}
	r.failedIn = map[string]bool{}
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(out, lines.Text()) // output of the go command itself
			continue
		}
		top, _, isSub := strings.Cut(e.Test, "/")
		key := e.Package + "\x00" + top
		switch {
		case e.Action == "build-output", e.Action == "output" && e.Test == "":
			if e.Output != "PASS\n" {
				fmt.Fprint(out, e.Output)
			}
		case e.Action == "output":
			if said[key] == nil {
				said[key] = &strings.Builder{}
			}
			said[key].WriteString(e.Output)
		case e.Action == "fail" && e.Test == "" && !r.failedIn[e.Package]:
			r.failed++ // no failed test explains the failure of the package
		case e.Action != "pass" && e.Action != "fail" && e.Action != "skip", isSub:
		default:
			r.count(e, said[key], out)
			delete(said, key)
		}
	}
	return r, lines.Err()
}

// count counts a finished top-level test, and prints its output if it failed.
func (r *run) count(e event, said *strings.Builder, out io.Writer) {
	if e.Test == "" {
		return
	}
	r.tests = append(r.tests, test{e.Package, e.Test, e.Elapsed})
	switch e.Action {
	case "pass":
		r.passed++
	case "skip":
		r.skipped++
	default:
		r.failed++
		r.failedIn[e.Package] = true
		if said != nil {
			fmt.Fprint(out, said)
		}
	}
}

// report prints the ten longest tests, and the tests that became slower.
func (r *run) report(out io.Writer, path string) error {
	slices.SortStableFunc(r.tests, func(a, b test) int { return cmp.Compare(b.seconds, a.seconds) })
	fmt.Fprintln(out, "\nthe ten longest tests, in seconds:")
	for _, t := range r.tests[:min(10, len(r.tests))] {
		fmt.Fprintf(out, "%7.1f  %s %s\n", t.seconds, t.pkg, t.name)
	}
	before, err := recorded(path)
	if err != nil {
		return err
	}
	slower, pace := r.slower(before)
	fmt.Fprintf(out, "slower than in %s by more than half, at %.2f times its pace:", path, pace)
	if len(slower) == 0 {
		fmt.Fprint(out, " none")
	}
	fmt.Fprintln(out)
	for _, t := range slower {
		fmt.Fprintf(out, "%7.1f  was %.1f  %s %s\n", t.seconds, before[t.pkg+"\t"+t.name], t.pkg, t.name)
	}
	return nil
}

// least is the shortest recorded time, in seconds, with which a test can be compared.
const least = 0.5

// slower returns the tests that took more than 1.5 times their earlier time, multiplied by
// the pace. The pace of this run is the median ratio of all tests to their earlier times.
func (r *run) slower(before map[string]float64) (slower []test, pace float64) {
	var ratios []float64
	for _, t := range r.tests {
		if was := before[t.pkg+"\t"+t.name]; was >= least {
			ratios = append(ratios, t.seconds/was)
		}
	}
	pace = 1
	if len(ratios) > 0 {
		slices.Sort(ratios)
		pace = ratios[len(ratios)/2]
	}
	for _, t := range r.tests {
		was, known := before[t.pkg+"\t"+t.name]
		if limit := 1.5 * pace * max(was, least); known && t.seconds > limit {
			slower = append(slower, t)
		}
	}
	return slower, pace
}

func recorded(path string) (map[string]float64, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	before := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		end := strings.LastIndex(line, "\t")
		if before[line[:max(end, 0)]], err = strconv.ParseFloat(strings.TrimSpace(line[end+1:]), 64); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", path, line, err)
		}
	}
	return before, nil
}

// write replaces the record with the times of this run.
func (r *run) write(path string) error {
	slices.SortFunc(r.tests, func(a, b test) int { return cmp.Or(cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.name, b.name)) })
	var text strings.Builder
	for _, t := range r.tests {
		if t.seconds >= 0.1 {
			fmt.Fprintf(&text, "%s\t%s\t%.1f\n", t.pkg, t.name, t.seconds)
		}
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}
