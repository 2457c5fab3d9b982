package cli

import (
	"bytes"
	"testing"
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
