// The position of the listing of proxies.

package ledger

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
	if err = sqlite.NotFound(err); errors.Is(err, ErrNotFound) {
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

// KeepListing records the listing's position, so that a restart continues there.
func (t observations) KeepListing(x Listing) error {
	var finished int64
	if !x.Finished.IsZero() {
		finished = sqlite.Micros(x.Finished)
	}
	return t.w.exec(`INSERT INTO listing (one, pass, began_at, page_size, page_token, finished_at, took, nameless, known, lost) VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (one) DO UPDATE SET pass = excluded.pass, began_at = excluded.began_at, page_size = excluded.page_size,
		page_token = excluded.page_token, finished_at = excluded.finished_at, took = excluded.took,
		nameless = excluded.nameless, known = excluded.known, lost = excluded.lost`,
		x.Pass, sqlite.Micros(x.Began), x.Size, x.Token, finished, int64(x.Took/time.Microsecond), x.Nameless, x.Known, x.Lost)
}

// ForgetSeen makes every proxy be read and listed again, because another runner has changed
// what this one saw.
func (t observations) ForgetSeen() error {
	return errors.Join(t.StaleAll(), t.w.exec(`UPDATE listing SET finished_at = 0, page_size = 0, page_token = ''`))
}
