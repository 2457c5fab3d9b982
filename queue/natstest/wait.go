package natstest

import (
	"context"
	"flag"
	"io"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"perennial/ledger/testrun"
)

// Patience bounds a test's waiting.
var Patience = 2 * time.Minute

// Main runs the tests of a package.
func Main(m *testing.M) {
	flag.DurationVar(&Patience, "patience", Patience, "bounds every waiting")
	_ = flag.Set("test.parallel", "8") // a default: these tests wait more than they compute
	testrun.Main(m)
}

// Quiet is a log whose lines are discarded.
func Quiet() *logrus.Logger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}

// Within bounds a test's waiting.
func Within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// Receive is what the channel gives, and ends the test where nothing comes.
func Receive[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case x := <-c:
		return x
	case <-Within(t).Done():
		t.Fatal("nothing came")
		panic("not reached")
	}
}

// Check ends the test with an error.
func Check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
