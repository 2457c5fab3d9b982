// The position of the listing of proxies.

package tables

import (
	"context"
	"errors"
	"time"

	"perennial/ledger/sqlite"
)

// Listing is the position of the listing of proxies. Like the proxies it is a cache: a
// rebuilt ledger begins a new pass.
type Listing struct {
	Pass     int64     // the last pass begun
	Began    time.Time // start of a pass in progress
	Size     int       // of its pages; 0: no pass in progress
	Token    string    // of its next page; "": the first
	Finished time.Time // the last complete pass; zero: none yet
	Took     time.Duration

	Nameless int // entries of the present pass whose id cannot be read
	// Known counts the living proxies before the last complete pass. Lost counts those that
	// it did not show readably. Retired proxies and those about to expire do not count.
	Known, Lost int
}

// Listing reads the listing's position; zero before the first pass.
func (l *Fleet) Listing(ctx context.Context) (x Listing, err error) {
	var began, finished, took int64
	err = l.read.QueryRowContext(ctx, `SELECT pass, began_at, page_size, page_token, finished_at, took, nameless, known, lost FROM listing`).
		Scan(&x.Pass, &began, &x.Size, &x.Token, &finished, &took, &x.Nameless, &x.Known, &x.Lost)
	if err = sqlite.NotFound(err); errors.Is(err, sqlite.ErrNone) {
		return Listing{}, nil
	}
	x.Took = time.Duration(took) * time.Microsecond
	if x.Size > 0 {
		x.Began = sqlite.FromMicros(began)
	}
	if finished > 0 {
		x.Finished = sqlite.FromMicros(finished)
	}
	return x, err
}

// LastSeen returns when a proxy was last read or listed, ignoring stale readings; zero if
// there is none. It walks through all proxies.
func (l *Fleet) LastSeen(ctx context.Context) (time.Time, error) {
	var at int64
	err := l.read.QueryRowContext(ctx, `SELECT coalesce(max(seen_at), 0) FROM proxies`).Scan(&at)
	if err != nil || at <= 0 {
		return time.Time{}, err
	}
	return sqlite.FromMicros(at), nil
}
