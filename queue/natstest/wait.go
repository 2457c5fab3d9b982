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

// Patience limits each wait of a test.
var Patience = 2 * time.Minute

// Main runs the tests of a package. The flag -patience sets Patience.
func Main(m *testing.M) {
	flag.DurationVar(&Patience, "patience", Patience, "bounds every waiting")
	_ = flag.Set("test.parallel", "8") // the default here, because these tests wait more than they compute
	testrun.Main(m)
}

// Quiet returns a log that discards its entries.
func Quiet() *logrus.Logger {
	log := logrus.New()
	log.SetOutput(io.Discard)
	return log
}

// Within returns a context that ends after Patience, or with the test.
func Within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	t.Cleanup(cancel)
	return ctx
}

// Receive returns the next value of a channel. It fails the test if none arrives within
// Patience.
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

// Check fails the test if err is not nil.
func Check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
