package cli

import (
	"context"
	"os"
	"testing"
)

// TestMain makes the test binary be the program where a benchmark starts it as the
// sandbox.
func TestMain(m *testing.M) {
	if os.Getenv("PERENNIAL_TEST_EXEC") != "" {
		os.Exit(Program{Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}.Main(context.Background()))
	}
	os.Exit(m.Run())
}
