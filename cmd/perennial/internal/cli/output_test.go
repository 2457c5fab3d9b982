package cli

import (
	"bufio"
	"bytes"
	"io"
	"testing"
	"time"
)

// The text may come from an operator or an old journal.
func TestOutputMovesNoCursor(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	text := "a\x1b[2J\x07b\u009b1m\x7f\tc\n"
	if n, err := (plainText{&out}).Write([]byte(text)); n != len(text) || err != nil || out.String() != "a [2J b 1m \tc\n" {
		t.Errorf("%q, %d, %v", out.String(), n, err)
	}
}

// A quick command says nothing.
func TestALongCommandSaysWhatItDoes(t *testing.T) {
	t.Parallel()
	read, write := io.Pipe()
	stop := sayAfterwards(write, "comparing", 0)
	if line, err := bufio.NewReader(read).ReadString('\n'); err != nil || line != "comparing\n" {
		t.Errorf("%q, %v", line, err)
	}
	stop()
	var out bytes.Buffer
	sayAfterwards(&out, "comparing", time.Hour)()
	if out.Len() > 0 {
		t.Errorf("a quick one says %q", out.String())
	}
}

func TestNumbersAreAlignedToTheRight(t *testing.T) {
	var out, errs bytes.Buffer
	a := &app{stdout: &out, stderr: &errs, output: "table"}
	list := a.listing("no lines", "LINE", "COUNT", "AMOUNT", "NOTE", "FREE")
	list.add("", nil, "a", "7", "3.00 USD", "12", "")
	list.add("", nil, "b", "1,200", "-1,000.00 USD", "twelve", "")
	list.add("", nil, "c", "", "unknown", "", "")
	must(t, list.end(nil))
	want := "LINE  COUNT         AMOUNT  NOTE    FREE\n" +
		"a         7       3.00 USD  12      \n" +
		"b     1,200  -1,000.00 USD  twelve  \n" +
		"c                  unknown          \n"
	if out.String() != want || errs.Len() > 0 {
		t.Errorf("%q\n%q%s", out.String(), want, errs.String())
	}
}

func TestAnEmptyTableSaysSo(t *testing.T) {
	for output, want := range map[string]string{"table": "no lines\n", "json": ""} {
		var out, errs bytes.Buffer
		a := &app{stdout: &out, stderr: &errs, output: output}
		must(t, a.listing("no lines", "LINE").end(nil))
		if out.Len() > 0 || errs.String() != want {
			t.Errorf("%s: %q %q", output, out.String(), errs.String())
		}
	}
}
