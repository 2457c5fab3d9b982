// When a runner knows the heartbeats of all living runners.

package cluster

import (
	"testing"
	"time"
)

// A runner knows the others from the moment its own first heartbeat comes back over the connection.
// A restarted server accepts connections before it stores anything, so that silence until then does
// not mean that no other runner lives.
func TestARunnerHearsTheOthersWhileItHearsItself(t *testing.T) {
	began := time.Now()
	at := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	var p Peers
	hear := func(spoken, connected, now time.Time) {
		p.Note([]Node{said("own", spoken), said("other", began)}, now)
		p.NoteSelf("own", connected, now)
	}
	want := func(what string, connected, now, want time.Time) {
		t.Helper()
		if got := p.HeardSince(connected, now); !got.Equal(want) {
			t.Errorf("%s: the others are heard since %v, want %v", what, got.Sub(began), want.Sub(began))
		}
	}
	never := time.Time{}

	want("nothing was said", never, at(0), never)
	hear(at(0), never, at(1))
	want("the first word", never, at(1), at(1))
	hear(at(4), never, at(4))
	want("the next word", never, at(4), at(1))

	want("connected again", at(5), at(5), never)
	hear(at(4), at(5), at(6))
	want("the old word again", at(5), at(6), never)
	hear(at(3), at(5), at(6))
	want("another word from before", at(5), at(6), never)
	want("long connected, and nothing came back", at(5), at(60), never)
	hear(at(61), at(5), at(62))
	want("the first word over the connection", at(5), at(62), at(62))
	hear(at(65), at(5), at(65))
	want("no gap", at(5), at(66), at(62))
	want("a gap", at(5), at(65).Add(LateAfter), never)
	hear(at(80), at(5), at(80))
	want("behind the gap", at(5), at(81), at(80))
}

// A runner does not defer to one that leads the account already or is gone.
func TestARunnerDefersToOneThatIsReady(t *testing.T) {
	now := time.Now()
	var p Peers
	p.Note([]Node{said("own", now), said("other", now, "b")}, now)
	if !p.Ready("a", "own", now) || p.Ready("b", "own", now) || p.Ready("a", "own", now.Add(LateAfter)) {
		t.Errorf("ready: %t, held %t, gone %t", p.Ready("a", "own", now), p.Ready("b", "own", now), p.Ready("a", "own", now.Add(LateAfter)))
	}
}
