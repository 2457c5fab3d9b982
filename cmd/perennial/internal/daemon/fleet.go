// The proxies as the holder of an account last listed them. They are a cache and no fact,
// so the journal does not carry them: the holder stores them after each listing, and the
// runners that follow take them over.

package daemon

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"perennial/ledger"
	"perennial/ledger/sleep"
)

const (
	// fleetEvery is how often a runner looks whether there is a new listing to store or
	// to take over.
	fleetEvery = 10 * time.Second
	// fleetTimeout bounds the carrying of one listing.
	fleetTimeout = 10 * time.Minute
	// fleetPage is how many proxies are read, or stored, at once.
	fleetPage = 1000
	// fleetFormat is the version of what is stored. Another one is left alone.
	fleetFormat = 1
)

// fleetHeader is the first line of what is stored. A line for each proxy follows.
type fleetHeader struct {
	Format   int           `json:"format"`
	Finished time.Time     `json:"finished_at"` // of the listing
	Took     time.Duration `json:"took"`        // nanoseconds
}

// carryFleet stores or takes over listings, as the runner's role is, until ctx ends.
func (a *account) carryFleet(ctx context.Context) {
	var carried time.Time // the newest listing that needs nothing more
	said := ""
	for sleep.For(ctx, fleetEvery) == nil {
		limited, cancel := context.WithTimeout(ctx, fleetTimeout)
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

func (a *account) carryOnce(ctx context.Context, carried *time.Time) error {
	own, err := a.Ledger.Listing(ctx)
	if err != nil || a.host.Queue.Down() != "" {
		return err
	}
	switch a.role() {
	case roleActive:
		if own.Finished.IsZero() || !own.Finished.After(*carried) {
			return nil
		}
		if err := a.storeFleet(ctx, own); err != nil {
			return err
		}
		*carried = own.Finished
	case roleStandby:
		stored, err := a.host.Queue.FleetFinished(ctx, a.Name)
		if err != nil || !stored.After(own.Finished) {
			return err
		}
		return a.takeFleet(ctx, own.Pass+1)
	}
	return nil
}

// storeFleet stores what the ledger has of every proxy behind a complete listing.
func (a *account) storeFleet(ctx context.Context, listing ledger.Listing) error {
	out, in := io.Pipe()
	go func() { in.CloseWithError(a.writeFleet(ctx, in, listing)) }()
	err := a.host.Queue.StoreFleet(ctx, a.Name, a.config.Replicas, listing.Finished, out)
	_ = out.Close() // the writer ends, too
	return err
}

func (a *account) writeFleet(ctx context.Context, w io.Writer, listing ledger.Listing) error {
	packed := gzip.NewWriter(w)
	lines := json.NewEncoder(packed)
	if err := lines.Encode(fleetHeader{fleetFormat, listing.Finished, listing.Took}); err != nil {
		return err
	}
	for after := ""; ; {
		page, err := a.Ledger.Proxies(ctx, after, fleetPage)
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
		if len(page) < fleetPage {
			return packed.Close()
		}
	}
}

// takeFleet takes over what is stored, as a listing pass of its own: what is not in it has
// gone. No expiry of it counts as seen, for a fact about it may come later: who takes the
// account over reads a proxy again before it pays for it. It ends with ErrLeads when the
// runner begins to hold the account.
func (a *account) takeFleet(ctx context.Context, pass int64) error {
	content, err := a.host.Queue.Fleet(ctx, a.Name)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	unpacked, err := gzip.NewReader(content)
	if err != nil {
		return fmt.Errorf("read the stored listing: %w", err)
	}
	lines := json.NewDecoder(unpacked)
	var header fleetHeader
	if err := lines.Decode(&header); err != nil {
		return fmt.Errorf("read the stored listing: %w", err)
	}
	if header.Format != fleetFormat {
		return fmt.Errorf("the stored listing has format %d, and this version reads %d", header.Format, fleetFormat)
	}
	began := time.Now()
	if err := a.Ledger.WhileFollowing(ctx, func(tx *ledger.Tx) error { return tx.StaleAll() }); err != nil {
		return err
	}
	for more := true; more; {
		var page []ledger.Proxy
		if page, more, err = fleetLines(lines); err != nil {
			return fmt.Errorf("read the stored listing: %w", err)
		}
		if err := a.Ledger.WhileFollowing(ctx, func(tx *ledger.Tx) error { return tx.Observe(pass, page...) }); err != nil {
			return err
		}
	}
	return a.Ledger.WhileFollowing(ctx, func(tx *ledger.Tx) error {
		return errors.Join(tx.FinishPass(pass, began), tx.KeepListing(ledger.Listing{Pass: pass, Finished: header.Finished, Took: header.Took}))
	})
}

// fleetLines reads a page of proxies; more is false at the end.
func fleetLines(lines *json.Decoder) (page []ledger.Proxy, more bool, err error) {
	for len(page) < fleetPage {
		var p ledger.Proxy
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
