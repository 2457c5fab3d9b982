package cli

import (
	"bufio"
	"bytes"
	"io"
	"testing"
	"time"
)

// TestOutputMovesNoCursor: whatever a person or an old journal says.
func TestOutputMovesNoCursor(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	text := "a\x1b[2J\x07b\u009b1m\x7f\tc\n"
	if n, err := (plainText{&out}).Write([]byte(text)); n != len(text) || err != nil || out.String() != "a [2J b 1m \tc\n" {
		t.Errorf("%q, %d, %v", out.String(), n, err)
	}
}

// TestALongCommandSaysWhatItDoes: one that ends before says nothing.
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
