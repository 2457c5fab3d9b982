package cli

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"perennial/ledger/testrun"
)

// TestMain makes the test binary act as the program if a benchmark starts it as the sandbox.
// Without the variable, such a start would run all tests, which start benchmarks.
func TestMain(m *testing.M) {
	if os.Getenv("PERENNIAL_TEST_EXEC") != "" {
		os.Exit(Program{Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}.Main(context.Background()))
	}
	if len(os.Args) > 1 && !strings.HasPrefix(os.Args[1], "-") {
		fmt.Fprintln(os.Stderr, "this is a test binary: set PERENNIAL_TEST_EXEC, as benchDir does, for it to be the program")
		os.Exit(ExitUsage)
	}
	remove := testrun.Prepare()
	code := m.Run()
	remove()
	os.Exit(code)
}
