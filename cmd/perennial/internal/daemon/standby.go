// Observation of a standby: its lag, and whether any runner has the account's lease.

package daemon

import (
	"context"
	"fmt"
	"sync"
	"time"

	"perennial/cmd/perennial/internal/cluster"
	"perennial/ledger/sleep"
	"perennial/queue/lease"
)

const (
	// standbyEvery is the interval at which a standby is compared with the events stream.
	standbyEvery = 5 * time.Second
	// standbySlow is how long a lagging standby may make no progress, and how long the account
	// may have no runner with its lease. After this time, /readyz reports the problem.
	standbySlow = 20 * time.Second
)

// standbyState is the result of watching a standby.
type standbyState struct {
	mu      sync.Mutex
	lag     uint64    // rows of the stream that the ledger does not have yet
	head    uint64    // the ledger's last row at the last comparison
	moved   time.Time // when head last changed or lag was 0
	held    time.Time // when a runner was last known to have the lease
	problem string
}

func (s *standbyState) read() (lag uint64, problem string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lag, s.problem
}

// close reports whether the standby's lag is known and is less than the given number of
// rows.
func (s *standbyState) close(most uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.moved.IsZero() && s.lag < most
}

// standbyWatch watches an account while this runner is its standby.
type standbyWatch struct{ *account }

// watchStandby compares the standby with the stream every standbyEvery until ctx ends.
func (a standbyWatch) watchStandby(ctx context.Context) {
	for {
		a.noteStandby(ctx)
		if sleep.For(ctx, standbyEvery) != nil {
			return
		}
	}
}

func (a standbyWatch) noteStandby(ctx context.Context) {
	if a.role() != cluster.RoleStandby {
		a.standby.note(standbyLook{at: time.Now(), held: true})
		return
	}
	limited, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	look, err := a.lookAtStandby(limited)
	if err == nil { // other checks report a failure of NATS
		a.standby.note(look)
	}
}

// standbyLook is one comparison of a standby with the stream.
type standbyLook struct {
	at         time.Time
	head, last uint64 // last rows of the ledger and of the stream
	held       bool   // a runner has the account's lease
}

func (a standbyWatch) lookAtStandby(ctx context.Context) (look standbyLook, err error) {
	head, _, err := a.Ledger().Head(ctx)
	if err != nil {
		return look, err
	}
	state, err := a.events().State(ctx)
	if err != nil {
		return look, err
	}
	holder := a.host.leases.Heard(a.Name)
	if holder == "" {
		holder, err = lease.Holder(ctx, a.js(), a.Name)
	}
	return standbyLook{at: time.Now(), head: uint64(head), last: state.Last, held: holder != ""}, err
}

func (s *standbyState) note(look standbyLook) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lag = look.last - min(look.last, look.head)
	if look.head != s.head || s.lag == 0 || s.moved.IsZero() {
		s.head, s.moved = look.head, look.at
	}
	if look.held || s.held.IsZero() {
		s.held = look.at
	}
	s.problem = ""
	switch {
	case look.at.Sub(s.moved) > standbySlow:
		s.problem = fmt.Sprintf("another runner holds the account, and this one has not advanced past row %d of %d since %s", s.head, look.last, s.moved.UTC().Format(time.RFC3339))
	case look.at.Sub(s.held) > standbySlow:
		s.problem = "no runner has held the account's lease since " + s.held.UTC().Format(time.RFC3339) + ", and this one could not take it"
	}
}
