package daemon

import (
	"context"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"perennial/ledger"
)

// The limit is stuckAfter.
func TestAStuckWriterIsNotAlive(t *testing.T) {
	l, err := ledger.Open(t.Context(), ledger.Config{Path: filepath.Join(t.TempDir(), "main.ledger.db"), Clock: time.Now})
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	a := &account{Name: "main", host: &Host{}}
	a.ledger.Store(l)
	if why := a.stuck(time.Now().Add(time.Hour)); why != "" {
		t.Errorf("an idle account is stuck: %s", why)
	}
	begun, end, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		done <- l.Write(context.Background(), func(*ledger.Tx) error {
			close(begun)
			<-end
			return nil
		})
	}()
	<-begun
	if why := a.stuck(time.Now()); why != "" {
		t.Errorf("at once: %s", why)
	}
	if why := a.stuck(time.Now().Add(stuckAfter + time.Second)); !strings.Contains(why, "writer") {
		t.Errorf("behind %s: %q", stuckAfter, why)
	}
	close(end)
	must(t, <-done)
	for limit := time.Now().Add(time.Minute); a.stuck(time.Now().Add(stuckAfter+time.Second)) != ""; runtime.Gosched() { // the writer ends its turn after it has replied
		if time.Now().After(limit) {
			t.Fatal("it works again, and is said to be stuck")
		}
	}
}
