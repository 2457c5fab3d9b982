// The progress of the listing of proxies.

package tables

import (
	"context"
	"errors"
	"time"

	"perennial/ledger/sqlite"
)

// Listing is the progress of the listing of proxies. Like the proxies it is a cache: a
// rebuilt ledger starts a new pass.
type Listing struct {
	Pass     int64     // number of the last pass that was started
	Began    time.Time // start of a pass in progress
	Size     int       // page size; 0: no pass in progress
	Token    string    // token of the next page; "": the first page
	Finished time.Time // end of the last complete pass; zero: none yet
	Took     time.Duration

	Nameless int // entries of the current pass whose ID cannot be read
	// Known is the number of living proxies before the last complete pass. Lost is how many
	// of them the pass did not show, or showed unreadably. Retired proxies and those about
	// to expire are not counted.
	Known, Lost int
}

// Listing reads the progress of the listing; zero before the first pass.
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

// LastSeen returns the time of the latest read or listing of any proxy. Stale data does not
// count. The time is zero if there is no other data. LastSeen scans all proxies.
func (l *Fleet) LastSeen(ctx context.Context) (time.Time, error) {
	var at int64
	err := l.read.QueryRowContext(ctx, `SELECT coalesce(max(seen_at), 0) FROM proxies`).Scan(&at)
	if err != nil || at <= 0 {
		return time.Time{}, err
	}
	return sqlite.FromMicros(at), nil
}
