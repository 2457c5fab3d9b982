// Carries the proxies from the leader to the standbys, as last listed and read. They are
// a cache, not facts, so the journal does not have them. The leader stores them after
// each listing and later the changes; the standbys load them.

package daemon

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"perennial/cmd/perennial/internal/cluster"
	"perennial/ledger"
	"perennial/ledger/sleep"
	"perennial/ledger/tables"
)

const (
	// listingEvery is how often a runner checks for a new listing to store or load.
	listingEvery = 10 * time.Second
	// listingTimeout bounds the transfer of one listing.
	listingTimeout = 10 * time.Minute
	// listingPage is how many proxies are read or stored at once.
	listingPage = 1000
	// changesLeast is the minimum interval between two stores of one listing with
	// changes. changesShare bounds the share of time: the last store's duration must fit
	// that many times in between.
	changesLeast = 20 * time.Second
	changesShare = 200
	// listingFormat is the version of the stored format. Another version is ignored.
	listingFormat = 1
)

// listingHeader is the first line of a stored listing. One line per proxy follows.
type listingHeader struct {
	Format   int           `json:"format"`
	Finished time.Time     `json:"finished_at"` // of the listing
	Took     time.Duration `json:"took"`        // nanoseconds
	Known    int           `json:"known,omitempty"`
	Lost     int           `json:"lost,omitempty"` // of Known
}

// carriedListing is the listing last stored or loaded.
type carriedListing struct {
	finished time.Time     // of the listing
	asOf     time.Time     // of the newest read in it
	at       time.Time     // when it was stored
	took     time.Duration // duration of the store
}

// carrier carries an account's listing.
type carrier struct{ *account }

// carryListing stores or loads listings, according to the runner's role, until ctx ends.
func (a carrier) carryListing(ctx context.Context) {
	var carried carriedListing
	said := ""
	for sleep.For(ctx, listingEvery) == nil {
		limited, cancel := context.WithTimeout(ctx, listingTimeout)
		err := a.carryOnce(limited, &carried)
		cancel()
		if err == nil || ctx.Err() != nil || errors.Is(err, ledger.ErrLeads) {
			said = ""
			continue
		}
		if text := err.Error(); text != said {
			said = text
			a.log.WithError(err).Warn("the last listing of the proxies is not carried from runner to runner now; it is tried again, and no payment depends on it")
		}
	}
}

func (a carrier) carryOnce(ctx context.Context, carried *carriedListing) error {
	own, err := a.Ledger().Fleet.Listing(ctx)
	if err != nil || a.host.Queue.Down() != "" {
		return err
	}
	switch a.role() {
	case cluster.RoleActive:
		if own.Finished.IsZero() || !carried.due(own.Finished, time.Now()) {
			return nil
		}
		return a.storeListing(ctx, own, carried)
	case cluster.RoleStandby:
		stored, err := a.stored().AsOf(ctx)
		if err != nil || stored.IsZero() || stored.Equal(own.Finished) || stored.Equal(carried.asOf) {
			return err
		}
		if err := a.takeListing(ctx, own.Pass+1); err != nil {
			return err
		}
		*carried = carriedListing{asOf: stored}
	}
	return nil
}

// due reports whether the ledger's proxies may be stored: there is a new listing, or the
// last store is old enough to add the changes.
func (c *carriedListing) due(finished, now time.Time) bool {
	return !finished.Equal(c.finished) || now.Sub(c.at) >= max(changesLeast, changesShare*c.took)
}

// storeListing stores every proxy of the ledger after a complete listing, unless nothing
// has changed since the last store.
func (a carrier) storeListing(ctx context.Context, listing tables.Listing, carried *carriedListing) error {
	asOf, err := a.Ledger().Fleet.LastSeen(ctx)
	if err != nil {
		return err
	}
	if asOf.Before(listing.Finished) {
		asOf = listing.Finished
	}
	now := carriedListing{finished: listing.Finished, asOf: asOf, at: time.Now()}
	if now.finished.Equal(carried.finished) && now.asOf.Equal(carried.asOf) {
		carried.at = now.at
		return nil
	}
	out, in := io.Pipe()
	go func() { in.CloseWithError(a.writeListing(ctx, in, listing)) }()
	err = a.stored().Store(ctx, a.config.Replicas, listing.Finished, asOf, out)
	_ = out.Close() // the writer ends, too
	if err == nil {
		now.took = time.Since(now.at)
		*carried = now
	}
	return err
}

func (a carrier) writeListing(ctx context.Context, w io.Writer, listing tables.Listing) error {
	packed := gzip.NewWriter(w)
	lines := json.NewEncoder(packed)
	if err := lines.Encode(listingHeader{listingFormat, listing.Finished, listing.Took, listing.Known, listing.Lost}); err != nil {
		return err
	}
	for after := ""; ; {
		page, err := a.Ledger().Fleet.Proxies(ctx, after, listingPage)
		if err != nil {
			return err
		}
		for _, p := range page {
			p.Retired, p.Labels = false, nil // the journal has them
			if err := lines.Encode(p); err != nil {
				return err
			}
			after = p.ProxyID
		}
		if len(page) < listingPage {
			return packed.Close()
		}
	}
}

// takeListing loads the stored listing as a listing pass of its own: proxies missing
// from it are gone. Its expiries do not count as read, because a later fact may change
// them: a new leader reads a proxy before it pays for it. It returns ErrLeads once the
// runner leads the account.
func (a carrier) takeListing(ctx context.Context, pass int64) error {
	content, err := a.stored().Read(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	unpacked, err := gzip.NewReader(content)
	if err != nil {
		return fmt.Errorf("read the stored listing: %w", err)
	}
	lines := json.NewDecoder(unpacked)
	var header listingHeader
	if err := lines.Decode(&header); err != nil {
		return fmt.Errorf("read the stored listing: %w", err)
	}
	if header.Format != listingFormat {
		return fmt.Errorf("the stored listing has format %d, and this version reads %d", header.Format, listingFormat)
	}
	began := time.Now()
	if err := a.Ledger().WhileFollowing(ctx, func(tx *ledger.Tx) error { return tx.StaleAll() }); err != nil {
		return err
	}
	for more := true; more; {
		var page []tables.Proxy
		if page, more, err = listingLines(lines); err != nil {
			return fmt.Errorf("read the stored listing: %w", err)
		}
		if err := a.Ledger().WhileFollowing(ctx, func(tx *ledger.Tx) error { return tx.Observe(pass, page...) }); err != nil {
			return err
		}
	}
	return a.Ledger().WhileFollowing(ctx, func(tx *ledger.Tx) error {
		return errors.Join(tx.FinishCopy(pass, began), tx.KeepListing(tables.Listing{
			Pass: pass, Finished: header.Finished, Took: header.Took, Known: header.Known, Lost: header.Lost,
		}))
	})
}

// listingLines reads a page of proxies; more is false at the end.
func listingLines(lines *json.Decoder) (page []tables.Proxy, more bool, err error) {
	for len(page) < listingPage {
		var p tables.Proxy
		if err := lines.Decode(&p); errors.Is(err, io.EOF) {
			return page, false, nil
		} else if err != nil {
			return nil, false, err
		}
		p.SeenAt = time.Unix(0, 0)
		page = append(page, p)
	}
	return page, true, nil
}
