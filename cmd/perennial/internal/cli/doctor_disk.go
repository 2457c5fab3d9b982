// The doctor's checks of the disk and the ledger files.

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/dustin/go-humanize"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/journal"
	"perennial/ledger"
	"perennial/ledger/files"
	"perennial/queue"
	"perennial/queue/events"
)

func (d *doctor) disk(ctx context.Context) {
	dir := d.config.DataDir
	for !config.Exists(dir) && filepath.Dir(dir) != dir {
		dir = filepath.Dir(dir)
	}
	free, err := files.Free(dir)
	if err != nil {
		d.bad("disk", err, "choose a data_dir that exists, or can be made")
		return
	}
	if probe, err := os.CreateTemp(dir, ".doctor-*"); err != nil {
		d.bad("disk", err, "let this user write to "+dir)
	} else {
		_ = probe.Close()
		_ = os.Remove(probe.Name())
		if free < diskWanted {
			d.bad("disk", humanize.IBytes(uint64(free))+" free in "+dir, "make room: nothing is sent when the ledger cannot be written")
		} else {
			d.ok("disk", "%s free in %s", humanize.IBytes(uint64(free)), dir)
		}
	}
	d.ledgerFile(ctx)
}

func (d *doctor) ledgerFile(ctx context.Context) {
	path := d.config.LedgerPath(d.account)
	if !config.Exists(path) {
		d.noLedger(ctx, path)
		return
	}
	l, err := ledger.Open(ctx, ledger.Config{Path: path, Clock: time.Now, ReadOnly: true})
	if damaged, ok := errors.AsType[*ledger.DamagedError](err); ok {
		d.bad("ledger", damaged.Err, damaged.Error())
		return
	}
	if err != nil {
		d.bad("ledger", err, "if the disk is NOT OK, mend that first; else run `perennial ledger verify`, and restore a backup if it does not hold")
		return
	}
	defer func() { _ = l.Close() }()
	seq, _, err := l.Head(ctx)
	if err != nil {
		d.bad("ledger", err, "run `perennial ledger verify`")
		return
	}
	d.ok("ledger", "%s journal rows; `perennial ledger verify` proves them", humanize.Comma(seq))
	d.published(ctx, l)
	d.pauses(ctx, l)
	d.schedules(ctx, l)
}

// published reports rows that the ledger recorded as published but the events stream lacks.
// Without this check, a lost or recreated stream would look like a first start.
func (d *doctor) published(ctx context.Context, l *ledger.Ledger) {
	noted, err := l.Published(ctx)
	if err != nil {
		d.bad("events", err, "run `perennial ledger verify`")
		return
	}
	last, err := d.lastEvent(ctx)
	if err != nil { // the check of NATS reports this error
		return
	}
	if why := journal.HeldFromNote(noted).Missing(last); why != "" {
		d.bad("events", why, journal.RefillAdvice)
	}
}

// noLedger reports a missing ledger file. If the account's stream is empty, no runner was
// ever started. If an embedded server has events, the file was lost. On an external NATS,
// another runner may have published the events.
func (d *doctor) noLedger(ctx context.Context, path string) {
	const do = "put the very file back, or stop the runner where one works and make the ledger again: `perennial ledger restore --from-events`"
	last, err := d.lastEvent(ctx)
	switch {
	case err != nil:
		d.bad("ledger", path+" is not there, and whether events were published from it could not be read: "+err.Error(), "mend what is said of nats first; then "+do)
	case last > 0 && d.config.NATS.External():
		d.ok("ledger", "not there: `perennial run` makes it from the %s rows on the events stream, and follows", humanize.Comma(int64(last)))
	case last > 0:
		d.bad("ledger", fmt.Sprintf("%s is not there, and %s rows of it are on the events stream", path, humanize.Comma(int64(last))), do)
	default:
		d.ok("ledger", "not there yet: the first `perennial run` makes it")
	}
}

// lastEvent returns the sequence of the newest event on the account's stream, or 0.
func (d *doctor) lastEvent(ctx context.Context) (uint64, error) {
	if !d.app.externalNATS(d.config) && !config.Exists(filepath.Join(d.config.DataDir, "nats")) {
		return 0, nil
	}
	h, err := d.app.openHistory(d.config, d.account)
	if err != nil {
		return 0, err
	}
	defer h.close()
	last, _, err := events.Of(h.queue.JetStream(), d.account).Last(ctx)
	if errors.Is(err, queue.ErrNoAccount) {
		err = nil
	}
	return last.Seq, err
}
