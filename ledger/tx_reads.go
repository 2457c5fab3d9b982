// What a transaction reads.

package ledger

import (
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

// Retired is Fleet.Retired within the transaction.
func (t *Tx) Retired(proxyID string) (bool, error) {
	return sqlite.Found(t.queryRow(`SELECT count(*) FROM retired WHERE proxy_id = ?`, proxyID))
}

// KnowsProxy reports whether the provider showed the proxy or an accepted renewal contains
// it.
func (t *Tx) KnowsProxy(proxyID string) (bool, error) {
	return sqlite.Found(t.queryRow(`SELECT EXISTS (SELECT 1 FROM proxies WHERE proxy_id = ?1) OR EXISTS (SELECT 1 FROM lines WHERE proxy_id = ?1)`, proxyID))
}

// Lines is Operations.Lines within the transaction.
func (t *Tx) Lines(operationID string) ([]tables.RenewalLine, error) {
	return sqlite.Collect(t.query(tables.RenewalLines, operationID), tables.ScanRenewalLine)
}

// Claimant returns the operation that has reserved the proxy for a renewal, or "".
func (t *Tx) Claimant(proxyID string) (string, error) {
	if err := t.w.writeLinesOf(proxyID); err != nil {
		return "", err
	}
	return tables.ScanClaimant(t.queryRow(tables.ClaimantQuery, proxyID))
}

// SettledSince returns the proxies for which a renewal settled at or after an instant. A
// read that was requested earlier may show the old expiry.
func (t *Tx) SettledSince(proxyIDs []string, at time.Time) ([]string, error) {
	ids, err := json.Marshal(proxyIDs)
	if err != nil {
		return nil, err
	}
	return sqlite.Collect(t.query(`SELECT DISTINCT x.proxy_id FROM json_each(?) e CROSS JOIN lines x ON x.proxy_id = e.value WHERE x.settled_at >= ?`, string(ids), sqlite.Micros(at)), sqlite.Text)
}

// Operation reads one operation within the transaction.
func (t *Tx) Operation(id string) (fact.Operation, error) {
	o, err := t.operation(id)
	if err != nil {
		return fact.Operation{}, err
	}
	return o.Operation, nil
}

// Known looks up a command ID within the transaction. It uses one statement because it runs
// for every incoming command.
func (t *Tx) Known(commandID string) (k tables.Known, err error) {
	if t.w.held.accepted[commandID] {
		if err := t.w.writeProjected(); err != nil {
			return k, err
		}
	}
	err = t.queryRow(tables.KnownCommand, commandID).Scan(&k.Kind, &k.AcceptedHash, &k.RefusedHash)
	return k, err
}

// Gone marks a proxy as gone, because the provider does not know it. If the proxy had not
// expired, it also appends a fact.
func (t *Tx) Gone(proxyID string) error {
	var expires sql.NullInt64
	err := t.w.QueryRow(`SELECT expires_at FROM proxies WHERE proxy_id = ? AND gone = 0`, proxyID).Scan(&expires)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := t.execFleet(`UPDATE proxies SET gone = 1 WHERE proxy_id = ?`, proxyID); err != nil {
		return err
	}
	if expires.Valid && expires.Int64 <= t.now {
		return nil
	}
	return t.Append(fact.ProxyGone{ProxyID: proxyID, ExpiresAt: sqlite.Instant(expires)})
}

// Pause reads one pause within the transaction. found is false if it is not in force.
func (t *Tx) Pause(scope, cause string) (p tables.Pause, found bool, err error) {
	p, err = tables.ScanPause(t.queryRow(`SELECT scope, cause, since, until, detail FROM pauses WHERE scope = ? AND cause = ?`, scope, cause))
	if errors.Is(err, sql.ErrNoRows) {
		return p, false, nil
	}
	return p, err == nil, err
}

// SharedSlot returns the latest scheduled time that both schedules have, or ErrNotFound.
func (t *Tx) SharedSlot(first, second string) (time.Time, error) {
	return sqlite.One(func(s sqlite.Scanner) (at time.Time, err error) {
		var micros int64
		err = s.Scan(&micros)
		return sqlite.FromMicros(micros), err
	}, t.queryRow(`SELECT a.slot_at FROM slots a JOIN slots b ON b.schedule = ? AND b.slot_at = a.slot_at WHERE a.schedule = ? ORDER BY a.slot_at DESC LIMIT 1`, first, second))
}

// SchedulePaused is Sweeps.SchedulePaused within the transaction.
func (t *Tx) SchedulePaused(schedule string) (tables.SchedulePause, error) {
	return sqlite.One(tables.ScanSchedulePause, t.queryRow(tables.PausedSchedule, schedule))
}

// HasSlot reports whether the schedule ran at this scheduled time, or counted it as missed.
func (t *Tx) HasSlot(schedule string, at time.Time) (bool, error) {
	return sqlite.Found(t.queryRow(`SELECT count(*) FROM slots WHERE schedule = ? AND slot_at = ?`, schedule, sqlite.Micros(at)))
}

// SweepReviews is Operations.SweepReviews within the transaction.
func (t *Tx) SweepReviews(operationID string) ([]string, error) {
	return sqlite.Collect(t.query(tables.SweepReviewsQuery, operationID), sqlite.Text)
}

// InSweepReview reports whether the proxy has an unanswered review for this expiry.
func (t *Tx) InSweepReview(proxyID string, expiresAt time.Time) (bool, error) {
	return sqlite.Found(t.queryRow(`SELECT count(*) FROM sweep_reviews WHERE proxy_id = ? AND abs(expires_at - ?)`+tables.IsNoMove+`AND answered_at IS NULL`,
		proxyID, sqlite.Micros(expiresAt)))
}

// LastEnding returns the last operation that ended without renewing the proxy, or
// ErrNotFound.
func (t *Tx) LastEnding(proxyID string) (fact.Ref, error) {
	r, err := tables.ScanEnding(t.queryRow(tables.EndingsQuery, proxyID, 1))
	if errors.Is(err, sql.ErrNoRows) {
		err = ErrNotFound
	}
	return r, err
}

// LastPaidBy returns the last operation that renewed the proxy, or ErrNotFound.
func (t *Tx) LastPaidBy(proxyID string) (fact.Ref, error) {
	r, err := tables.ScanEnding(t.queryRow(`SELECT l.operation, o.command_id, o.trace_id FROM lines l JOIN operations o ON o.id = l.operation
		WHERE l.proxy_id = ? AND (l.state = 'succeeded' OR l.state = 'charged') AND l.settled_at IS NOT NULL ORDER BY l.settled_at DESC LIMIT 1`, proxyID))
	return r, sqlite.NotFound(err)
}

// HeldNow lists the runs of a schedule, scheduled at or after an instant, whose plan needs
// approval, newest first.
func (t *Tx) HeldNow(schedule string, since time.Time) ([]tables.Slot, error) {
	return sqlite.Collect(t.query(`SELECT `+tables.SlotColumns+` FROM slots WHERE schedule = ? AND slot_at >= ? AND state = 'held' ORDER BY slot_at DESC`, schedule, sqlite.Micros(since)), tables.ScanSlot)
}

// HeldSlots is Sweeps.HeldSlots within the transaction.
func (t *Tx) HeldSlots(plan string) ([]tables.Slot, error) {
	return sqlite.Collect(t.query(tables.HeldQuery, plan), tables.ScanSlot)
}
