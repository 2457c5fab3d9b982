package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

// projector applies a fact to the projections, in the transaction that appends the fact. No
// other code writes projections, except to load a snapshot.
type projector struct{ *Tx }

// apply applies one fact to the projections, during normal work and in a rebuild. Its
// result depends only on the row, the fact and the projections.
func (t projector) apply(r chain.Row, f fact.Fact) error {
	switch f := f.(type) {
	case fact.CommandAccepted, fact.CommandRejected, fact.CommandConflict, fact.CommandHeld, fact.CommandReleased, fact.CommandCancelled,
		fact.CommandFinished:
		return t.applyCommand(r, f)
	case fact.OperationSending, fact.OperationUnsent, fact.OperationWaiting, fact.OperationReview, fact.OperationResolved:
		return t.applyOperation(r, f)
	case fact.OrderAccepted, fact.OrderProgressed, fact.OrderDelivered, fact.OrderRefunded, fact.OrderListed:
		return t.applyOrder(r, f)
	case fact.RenewalSettled:
		return t.applyRenewal(r, f)
	case fact.ProxySkipped:
		return t.applySkipped(r, f)
	case fact.ScheduleConfigured, fact.SchedulePaused, fact.ScheduleResumed:
		return t.applySchedule(r, f)
	case fact.SweepPlanned, fact.SweepHeld, fact.SweepFinished, fact.SweepMissed:
		return t.applySweep(r, f)
	case fact.AccountPaused:
		return t.exec(`INSERT INTO pauses (scope, cause, since, until, detail) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (scope, cause) DO UPDATE SET until = excluded.until, detail = excluded.detail`,
			f.Scope, f.Cause, r.Time, sqlite.NullInstant(f.Until), f.Detail)
	case fact.AccountResumed:
		return t.applyResumed(f)
	case fact.LedgerOpened:
		return t.applyOpened(r, f)
	case fact.LedgerRecorded:
		return t.applyRecorded(r, f)
	case fact.LedgerArchived:
		return t.applyArchived(r, f)
	case fact.LedgerBounded:
		return t.applyBounded(f)
	case fact.ProxyRetired, fact.ProxyReinstated, fact.ProxyReplaced, fact.ProxyReview, fact.ProxyExpiring, fact.ProxyExpired:
		return t.applyProxy(r, f)
	case fact.RunnerStarted, fact.LedgerReconciled, fact.LedgerUncompared, fact.LedgerDiscrepancy, fact.OperationOverran, fact.SweepFailed, fact.ListingShrunk, fact.ListingUncovered, fact.ProxyGone, fact.ProxyRevealed, fact.DeadRequeued, fact.DeadDropped:
		return nil
	}
	return fmt.Errorf("no fold for %T", f)
}

// applyOpened binds a new ledger to its account. For a restored ledger it starts an epoch:
// every unfinished operation may have been sent after the last row. Therefore a refusal by
// the provider is not trusted, and no unfinished operation is sent after its retry window.
func (t projector) applyOpened(r chain.Row, f fact.LedgerOpened) error {
	if f.Restored != nil {
		since := sqlite.Micros(f.Restored.Since)
		err := t.w.execOne(`UPDATE binding SET epoch = ?, forgotten_since = min(coalesce(forgotten_since, ?), ?)`, f.Epoch, since, since)
		if err != nil {
			return err
		}
		return t.presumeSent(f.Restored.AppID)
	}
	err := t.exec(`INSERT INTO binding (one, account_id, environment, base_url, currency, epoch, opened_at) VALUES (1, ?, ?, ?, ?, ?, ?)`,
		f.AccountID, f.Environment, f.BaseURL, f.Currency, f.Epoch, r.Time)
	if err != nil {
		return err
	}
	t.w.booked = t.bookedAt(r)
	m := transfer{kind: "funding", debit: "wallet", credit: "funding", cents: f.OpeningCents}
	if m.cents < 0 { // the account is overdrawn
		m.debit, m.credit, m.cents = m.credit, m.debit, -m.cents
	}
	return t.book(r, m)
}

func (t projector) applyRecorded(r chain.Row, f fact.LedgerRecorded) error {
	switch f.Movement {
	case fact.MovementCharge, fact.MovementRefund:
		return t.bookRecorded(r, f)
	}
	m := transfer{kind: f.BookAccount(), debit: "wallet", credit: f.BookAccount(), cents: f.AmountCents, orderNo: f.OrderNo}
	if f.Movement == fact.MovementExternal {
		m.debit, m.credit = m.credit, m.debit
	}
	return t.book(r, m)
}

func (t projector) applyCommand(r chain.Row, f fact.Fact) error {
	switch f := f.(type) {
	case fact.CommandAccepted:
		return t.applyAccepted(r, f)
	case fact.CommandRejected:
		return t.applyRejected(r, f)
	case fact.CommandHeld:
		return t.change(r, f.OperationID, func(o *operation) {
			o.State, o.Reason, o.EstimateCents, o.NextAt = fact.StateHeld, f.Reason, max(o.EstimateCents, f.EstimateCents), inMicros(f.Until)
		})
	case fact.CommandReleased:
		return t.change(r, f.OperationID, func(o *operation) {
			o.State, o.Reason, o.Code, o.NextAt = fact.StateAccepted, f.Reason, "released", nil
			if f.Automatic {
				o.Code = ""
			}
		})
	case fact.CommandCancelled:
		return t.endUncharged(r, f.OperationID, fact.CodeCancelled, f.Said(f.By), "")
	case fact.CommandConflict: // the content that was accepted first remains
		return t.applyRefused(f.CommandID, f.ContentHash)
	case fact.CommandFinished:
		t.w.known.forgetCommand(f.CommandID)
		t.w.held.finished.add(f.CommandID, f.Revision, r.Seq)
		t.w.held.revisions[f.CommandID] = f.Revision
		return nil
	}
	return fmt.Errorf("no fold for %T", f)
}

func (t projector) applyAccepted(r chain.Row, f fact.CommandAccepted) error {
	h := &t.w.held
	h.commands.add(f.CommandID, string(f.Kind), f.ContentHash, r.Seq, r.Time, f.ReplyTo)
	h.accepted[f.CommandID] = true
	for name, value := range f.Labels {
		h.labels.add(name, value, r.Time, f.CommandID)
	}
	if err := t.plan(r, f.CommandID, f.Kind, f.DurationDays, f.EstimateCents, f.Operations, f.Presumed); err != nil {
		return err
	}
	if len(f.Operations) == 1 {
		t.w.known.rememberCommand(f.CommandID, singleCommand{operation: f.Operations[0].OperationID, replyTo: f.ReplyTo, streamSequence: f.StreamSequence})
	}
	return nil
}

func (t projector) plan(r chain.Row, commandID string, kind fact.Kind, days, estimate int64, planned []fact.Planned, x fact.Presumed) error {
	if len(planned) > 0 {
		t.w.known.forgetCommand(commandID)
	}
	for _, p := range planned {
		if err := t.create(r, commandID, kind, days, estimate, p, x); err != nil {
			return err
		}
	}
	return nil
}

func (t projector) applyRejected(r chain.Row, f fact.CommandRejected) error {
	if f.OperationID == "" {
		err := t.exec(`INSERT INTO rejections (id, content_hash, code, reason, rejected_at) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET content_hash = excluded.content_hash, code = excluded.code,
			reason = excluded.reason, rejected_at = excluded.rejected_at`,
			f.CommandID, f.ContentHash, f.Code, f.Reason, r.Time)
		if err != nil {
			return err
		}
		return t.applyRefused(f.CommandID, f.ContentHash)
	}
	if err := t.endUncharged(r, f.OperationID, f.Code, f.Reason, f.TraceID); err != nil {
		return err
	}
	if len(f.SplitInto) == 0 {
		return nil
	}
	whole, err := t.operation(f.OperationID)
	if err != nil {
		return err
	}
	return t.plan(r, f.CommandID, whole.Kind, f.DurationDays, 0, f.SplitInto, fact.Presumed{})
}

func (t projector) endUncharged(r chain.Row, id, code, reason, traceID string) error {
	err := t.change(r, id, func(o *operation) {
		o.State, o.live, o.Code, o.Reason, o.TraceID, o.NextAt = fact.StateRejected, false, code, reason, traceID, nil
	})
	if err != nil {
		return err
	}
	held, err := t.changeHeld(id, "", func(l *heldLine) {
		if l.claim {
			l.state, l.claim, l.settled = fact.LineNotCharged, false, r.Time
		}
	})
	if err != nil || held {
		return err
	}
	return t.exec(endLines, r.Time, id)
}

func (t projector) applyOperation(r chain.Row, f fact.Fact) error {
	switch f := f.(type) {
	case fact.OperationSending:
		return t.applySending(r, f)
	case fact.OperationUnsent:
		return t.change(r, f.OperationID, func(o *operation) {
			o.State, o.Reason, o.Attempts, o.NextAt = fact.StateWaiting, f.Reason, f.Attempt, new(sqlite.FromMicros(sqlite.Micros(f.NextAt)))
			if o.Ambiguous <= 0 {
				o.BodySeq = 0
			}
		})
	case fact.OperationWaiting:
		return t.change(r, f.OperationID, func(o *operation) {
			o.State, o.Reason, o.Code, o.TraceID, o.NextAt = fact.StateWaiting, f.Reason, f.Code, f.TraceID, new(sqlite.FromMicros(sqlite.Micros(f.NextAt)))
			o.mayHaveExecuted(f.Ambiguous)
		})
	case fact.OperationReview:
		return t.applyReview(r, f)
	case fact.OperationResolved:
		return t.applyResolved(r, f)
	}
	return fmt.Errorf("no fold for %T", f)
}

func (t projector) applyReview(r chain.Row, f fact.OperationReview) error {
	if err := t.applyBought(f.Ref, f.ProxyIDs, f.Proxies); err != nil {
		return err
	}
	var charged, refunded int64
	if f.Settlement != nil {
		var err error
		if charged, refunded, err = t.settle(r, f.OperationID, f.Settlement.Items); err != nil {
			return err
		}
	}
	return t.change(r, f.OperationID, func(o *operation) {
		o.State, o.Reason, o.Code, o.TraceID, o.NextAt = fact.StateReview, f.Reason, f.Code, f.TraceID, nil
		o.OrderNo = cmp.Or(f.OrderNo, o.OrderNo)
		o.add(charged, refunded, t.bookedAt(r))
		o.mayHaveExecuted(f.Ambiguous)
	})
}

// mayHaveExecuted counts an attempt with an unknown outcome. The time of the first of these
// attempts is that of the operation's previous change.
func (o *operation) mayHaveExecuted(ambiguous bool) {
	if !ambiguous {
		return
	}
	if o.Ambiguous++; o.FirstAmbiguousAt == nil {
		o.FirstAmbiguousAt = new(o.UpdatedAt)
	}
}

func (t projector) applyResolved(r chain.Row, f fact.OperationResolved) error {
	added, returned, err := t.bookResolution(r, f)
	if err := errors.Join(err, t.applyBought(f.Ref, f.ProxyIDs, f.Proxies)); err != nil {
		return err
	}
	state := fact.LineNotCharged
	if f.Outcome == "charged" {
		state = fact.LineCharged
	}
	query := `UPDATE lines SET state = ?1, claim = 0, charged_cents = CASE WHEN ?2 THEN max(charged_cents, ?3) ELSE charged_cents END,
		refunded_cents = CASE WHEN ?2 THEN max(charged_cents, ?3) - ?3 ELSE refunded_cents END, settled_at = ?4 WHERE operation = ?5 AND claim = 1`
	args := []any{string(state), f.ProxyID != "" || state == fact.LineNotCharged, f.ChargedCents, r.Time, f.OperationID}
	switch {
	case f.ProxyID != "":
		err = t.exec(query+` AND proxy_id = ?6`, append(args, f.ProxyID)...)
	case len(f.Lines) > 0:
		for _, l := range f.Lines {
			if err == nil {
				err = t.exec(query+` AND proxy_id = ?6`, string(state), true, l.ChargedCents, r.Time, f.OperationID, l.ProxyID)
			}
		}
	default:
		err = t.exec(query, args...)
	}
	if err != nil {
		return err
	}
	// A review ends when its last line is answered. An operation that has settled except for
	// unresolved lines keeps its state.
	open, err := sqlite.Found(t.queryRow(`SELECT count(*) FROM lines WHERE operation = ? AND claim = 1`, f.OperationID))
	if err != nil {
		return err
	}
	var kind fact.Kind
	err = t.change(r, f.OperationID, func(o *operation) {
		o.live = o.State == fact.StateReview && open
		if o.State == fact.StateReview && !open {
			o.State = fact.StateResolved
		}
		kind, o.Reason, o.NextAt, o.OrderNo = o.Kind, f.Said(f.By), nil, cmp.Or(f.OrderNo, o.OrderNo)
		o.add(added, returned, t.bookedAt(r))
	})
	if err != nil {
		return err
	}
	return t.plan(r, f.CommandID, kind, f.DurationDays, 0, f.SendAgain, f.Presumed)
}

func (t projector) applySkipped(r chain.Row, f fact.ProxySkipped) error {
	if f.OperationID == "" {
		delete(t.w.known.commands, f.CommandID)
		return nil // skipped before an operation existed, because another operation had reserved the proxy
	}
	for _, x := range f.Proxies() {
		held, err := t.changeHeld(f.OperationID, x.ProxyID, func(l *heldLine) { l.state, l.claim, l.settled = fact.LineSkipped, false, r.Time })
		if err == nil && !held {
			err = t.exec(skipLine, r.Time, f.OperationID, x.ProxyID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t projector) applySweep(r chain.Row, f fact.Fact) error {
	const put = `INSERT INTO slots (schedule, slot_at, state, plan, seq, updated_at) VALUES (?, ?, ?, ?, ?, ?)`
	switch f := f.(type) {
	case fact.SweepPlanned:
		// The primary key refuses a scheduled time that has already run.
		if err := t.exec(put, f.Schedule, sqlite.Micros(f.Slot), "planned", f.Plan, r.Seq, r.Time); err != nil {
			return err
		}
		return t.applyPlanned(r, f)
	case fact.SweepHeld:
		// The update may match no row. For a shortfall, sweep.held comes before sweep.planned, so
		// the scheduled time has no row yet.
		return t.exec(`UPDATE slots SET state = 'held', updated_at = ? WHERE schedule = ? AND slot_at = ?`, r.Time, f.Schedule, sqlite.Micros(f.Slot))
	case fact.SweepFinished:
		if err := t.applyApproved(r, f); err != nil {
			return err
		}
		return t.w.execOne(`UPDATE slots SET state = 'finished', updated_at = ? WHERE schedule = ? AND slot_at = ?`, r.Time, f.Schedule, sqlite.Micros(f.Slot))
	case fact.SweepMissed:
		for _, slot := range f.Slots {
			if err := t.exec(put, f.Schedule, sqlite.Micros(slot), "missed", "", r.Seq, r.Time); err != nil {
				return err
			}
		}
	}
	return nil
}

// MaxRefusals limits how many contents of one command ID get a fact for their refusal or
// conflict. Without it a producer could fill the journal with ever new contents.
const MaxRefusals = 32

// RefusedContent reports whether this content of a command was refused or conflicted with the
// accepted content. contents is the number of contents of the ID that were refused or conflicted,
// up to MaxRefusals.
func (t *Tx) RefusedContent(commandID, hash string) (before bool, contents int64, err error) {
	var same int64
	err = t.queryRow(`SELECT (SELECT count(*) FROM refused_contents WHERE command_id = ?1 AND content_hash = ?2),
		(SELECT count(*) FROM (SELECT 1 FROM refused_contents WHERE command_id = ?1 LIMIT +?3))`, commandID, hash, MaxRefusals).
		Scan(&same, &contents)
	return same > 0, contents, err
}

// RefusedContent reports whether this content of a command was refused or conflicted with
// the accepted content. For rows archived by an older version, it knows only the last
// content of an ID.
func (l *Ledger) RefusedContent(ctx context.Context, commandID, hash string) (refused bool, err error) {
	refused, err = sqlite.Found(l.read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM rejections WHERE id = ? AND content_hash = ?)`, commandID, hash))
	if err != nil || refused {
		return refused, err
	}
	err = sqlite.IfMade(ctx, l.read, "refused_contents", func() error {
		refused, err = sqlite.Found(l.read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM refused_contents WHERE command_id = ? AND content_hash = ?)`, commandID, hash))
		return err
	})
	return refused, err
}

// applyRefused records a refused content. Older journals contain some contents twice.
func (t projector) applyRefused(commandID, hash string) error {
	return t.exec(`INSERT INTO refused_contents (command_id, content_hash) VALUES (?, ?) ON CONFLICT DO NOTHING`, commandID, hash)
}

// CauseRestored is the cause of the pause that follows a restore: requests that were sent
// after the ledger's last row may be lost.
const CauseRestored = "restored"

// StaleAll marks every proxy as stale, because a restored ledger may have lost renewals of
// proxies that it has read.
func (t observations) StaleAll() error {
	return t.execFleet(`UPDATE proxies SET seen_at = 0, last_seen_at = 0 WHERE seen_at <> 0 OR last_seen_at <> 0`)
}

// applyResumed ends a pause. An operator may end the pause after a restore although the lost time
// is unexplained (PresumeSentBy). In that case, operations that were accepted during the pause
// might have been sent before, because their commands might have been published in the lost time.
func (t projector) applyResumed(f fact.AccountResumed) error {
	if err := t.exec(`DELETE FROM pauses WHERE scope = ? AND cause = ?`, f.Scope, f.Cause); err != nil {
		return err
	}
	if f.Scope != "account" || f.Cause != CauseRestored {
		return nil
	}
	if f.PresumeSentBy != "" {
		if err := t.presumeSent(f.PresumeSentBy); err != nil {
			return err
		}
	}
	return t.exec(`UPDATE binding SET forgotten_since = NULL`)
}

// presumeSent counts one attempt with an unknown outcome for each operation that could be
// sent next and has no such attempt. It dates the attempt to the start of the lost time.
// Requests that were in progress are counted when the runner starts.
func (t projector) presumeSent(appID string) error {
	t.w.known.clear()
	return t.exec(`UPDATE operations SET ambiguous = 1, first_ambiguous_at = (SELECT forgotten_since FROM binding),
		app_id = CASE WHEN app_id = '' THEN ? ELSE app_id END, version = version + 1
		WHERE live = 1 AND ambiguous = 0 AND (state = 'accepted' OR state = 'held' OR state = 'waiting')
		AND (SELECT forgotten_since FROM binding) IS NOT NULL`, appID)
}

// monthEndsMost limits the months of one archive, because a clock may have been far off.
const monthEndsMost = 1200

func nextMonth(at time.Time) time.Time {
	return time.Date(at.Year(), at.Month()+1, 1, 0, 0, 0, 0, time.UTC)
}

// monthEnds lists the months of the file that ended before row last, each with its last row.
// The ledger that starts after an archive no longer shows which row ended a month.
func (l *Ledger) monthEnds(ctx context.Context, last int64) (ends []fact.MonthEnd, err error) {
	begins := int64(0)
	if l.base != nil {
		begins = l.base.Seq
	}
	var first time.Time
	err = l.read.QueryRowContext(ctx, `SELECT coalesce((SELECT booked_at FROM transfers WHERE seq <= ? ORDER BY seq DESC LIMIT 1),
		(SELECT opened_at FROM binding), (SELECT time FROM journal ORDER BY seq LIMIT 1), 0)`, begins).Scan(sqlite.At(&first))
	for until := nextMonth(first); err == nil && len(ends) < monthEndsMost; until = nextMonth(until) {
		var h chain.Head
		var known bool
		h, known, err = tables.HeadBefore(ctx, l.read, until)
		if err != nil || h.Seq >= last {
			break
		}
		if known && h.Seq > 0 && h.Seq >= begins {
			ends = append(ends, fact.MonthEnd{Until: until, Seq: h.Seq, Hash: h.Hash})
		}
	}
	return ends, err
}

// countNet counts a transfer booked at an instant. A charge counts in the quarter of an hour in
// which it is booked. A refund counts in the quarter of its charge, because otherwise a refund of
// yesterday's charge would raise today's limit.
func (w *writer) countNet(at int64, m transfer) {
	switch m.kind {
	case "charge", "suspense":
		w.netCharges[tables.QuarterOf(at)] += m.cents
	case "refund":
		w.netCharges[tables.QuarterOf(cmp.Or(m.chargedAt, at))] -= m.cents
	}
}

func (w *writer) flushNetCharges() error {
	for quarter, cents := range w.netCharges {
		err := w.exec(`INSERT INTO net_charges (quarter, cents) VALUES (?, ?)
			ON CONFLICT (quarter) DO UPDATE SET cents = cents + excluded.cents`, quarter, cents)
		if err != nil {
			return err
		}
	}
	clear(w.netCharges)
	return nil
}

// applyArchived records which archive contains the archived rows. It removes nothing,
// because a journal rebuilt from the events still contains those rows.
func (t projector) applyArchived(r chain.Row, f fact.LedgerArchived) error {
	err := t.exec(`INSERT INTO archives (seq, first_seq, last_seq, last_hash, snapshot_hash, file, archived_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		r.Seq, f.FirstSeq, f.LastSeq, f.LastHash, f.SnapshotHash, f.File, r.Time)
	for _, e := range f.MonthEnds {
		if err != nil {
			return err
		}
		err = t.exec(`INSERT INTO month_ends (until, seq, hash) VALUES (?, ?, ?) ON CONFLICT (until) DO NOTHING`, sqlite.Micros(e.Until), e.Seq, e.Hash)
	}
	return err
}

// applyBounded records the first row of the events stream. The archive in the fact must be
// known, because a restore uses a snapshot only if a fact contains its hash.
func (t projector) applyBounded(f fact.LedgerBounded) error {
	if f.FirstSeq < 2 || f.FirstSeq > f.LastSeq+1 {
		return fmt.Errorf("the events stream cannot begin with row %d after a snapshot of row %d", f.FirstSeq, f.LastSeq)
	}
	return t.w.execOne(`UPDATE archives SET events_begin = max(events_begin, ?) WHERE seq = (SELECT max(seq) FROM archives
		WHERE last_seq = ? AND last_hash = ? AND snapshot_hash = ?)`, f.FirstSeq, f.LastSeq, f.LastHash, f.SnapshotHash)
}

func (t projector) applyProxy(r chain.Row, f fact.Fact) error {
	switch f := f.(type) {
	case fact.ProxyRetired:
		return t.retire(r, f.ProxyID, f.By, f.Reason)
	case fact.ProxyReinstated:
		return errors.Join(
			t.exec(`DELETE FROM retired WHERE proxy_id = ?`, f.ProxyID),
			// A reinstatement answers the review: earlier failed renewals no longer count.
			t.exec(`UPDATE sweep_reviews SET answered_at = ? WHERE proxy_id = ?`, r.Time, f.ProxyID))
	case fact.ProxyReview:
		return t.exec(`INSERT INTO sweep_reviews (proxy_id, operation, reason, expires_at, since, answered_at) VALUES (?, ?, ?, ?, ?, NULL)
			ON CONFLICT (proxy_id) DO UPDATE SET operation = excluded.operation, reason = excluded.reason, expires_at = excluded.expires_at,
			since = excluded.since, answered_at = NULL`, f.ProxyID, f.OperationID, f.Reason, sqlite.Micros(f.ExpiresAt), r.Time)
	case fact.ProxyExpiring:
		return t.applyWarned(f.ProxyID, sqlite.Micros(f.ExpiresAt), f.ThresholdSeconds)
	case fact.ProxyExpired:
		return t.applyWarned(f.ProxyID, sqlite.Micros(f.ExpiresAt), 0)
	case fact.ProxyReplaced:
		err := t.exec(`INSERT INTO replacements (proxy_id, schedule, command_id, max_total_cents, seq, replaced_at) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (proxy_id) DO UPDATE SET schedule = excluded.schedule, command_id = excluded.command_id,
			max_total_cents = excluded.max_total_cents, seq = excluded.seq, replaced_at = excluded.replaced_at`,
			f.ProxyID, f.Schedule, f.CommandID, f.MaxTotalCents, r.Seq, r.Time)
		if err != nil {
			return err
		}
		// A proxy that is being replaced is not renewed as well.
		return t.retire(r, f.ProxyID, "schedule "+f.Schedule, "replaced by order "+f.CommandID)
	}
	return fmt.Errorf("no fold for %T", f)
}

func (t projector) applySchedule(r chain.Row, f fact.Fact) error {
	switch f := f.(type) {
	case fact.ScheduleConfigured:
		if err := t.renameSchedule(f.Was, f.Schedule); err != nil {
			return err
		}
		return t.exec(`INSERT INTO schedule_calendars (schedule, cron, timezone, since) VALUES (?, ?, ?, ?)
			ON CONFLICT (schedule) DO UPDATE SET cron = excluded.cron, timezone = excluded.timezone, since = excluded.since`,
			f.Schedule, f.Cron, f.Timezone, sqlite.Micros(f.Since))
	case fact.SchedulePaused:
		return t.exec(`INSERT INTO schedule_pauses (schedule, since, until, by, reason) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (schedule) DO UPDATE SET until = excluded.until, by = excluded.by, reason = excluded.reason`,
			f.Schedule, r.Time, sqlite.NullInstant(f.Until), fact.Signed(f.By, f.User), f.Reason)
	case fact.ScheduleResumed:
		return t.exec(`DELETE FROM schedule_pauses WHERE schedule = ?`, f.Schedule)
	}
	return fmt.Errorf("no fold for %T", f)
}

// renameSchedule moves everything that belongs to a schedule to its new name. If the earlier name
// is "", there is nothing to move. If the new name is paused, this pause replaces the pause of
// the earlier name.
func (t projector) renameSchedule(was, name string) error {
	if was == "" {
		return nil
	}
	return errors.Join(
		t.exec(`UPDATE slots SET schedule = ? WHERE schedule = ?`, name, was),
		t.exec(`UPDATE sweep_commands SET schedule = ? WHERE schedule = ?`, name, was),
		t.exec(`UPDATE replacements SET schedule = ? WHERE schedule = ?`, name, was),
		t.exec(`UPDATE OR IGNORE schedule_pauses SET schedule = ? WHERE schedule = ?`, name, was),
		t.exec(`DELETE FROM schedule_pauses WHERE schedule = ?`, was),
		t.exec(`DELETE FROM schedule_calendars WHERE schedule = ?`, was))
}

func (t projector) retire(r chain.Row, proxyID, by, reason string) error {
	return t.exec(`INSERT INTO retired (proxy_id, by, reason, since) VALUES (?, ?, ?, ?)
		ON CONFLICT (proxy_id) DO UPDATE SET by = excluded.by, reason = excluded.reason, since = excluded.since`, proxyID, by, reason, r.Time)
}

func (t projector) applyWarned(proxyID string, expiresAt, threshold int64) error {
	return t.exec(`INSERT INTO warned (proxy_id, expires_at, threshold_seconds) VALUES (?, ?, ?)
		ON CONFLICT (proxy_id) DO UPDATE SET expires_at = excluded.expires_at, threshold_seconds = excluded.threshold_seconds`,
		proxyID, expiresAt, threshold)
}

// applyBought records the order, offer and labels of proxies, which the filters of
// schedules use.
func (t projector) applyBought(of fact.Ref, ids []string, proxies []fact.DeliveredProxy) error {
	for _, id := range ids {
		err := t.exec(`INSERT INTO delivered (proxy_id, operation) VALUES (?, ?) ON CONFLICT (proxy_id) DO UPDATE SET operation = excluded.operation`, id, of.OperationID)
		if err != nil {
			return err
		}
	}
	for _, p := range proxies {
		if p.OfferCode == "" {
			continue
		}
		err := t.exec(`INSERT INTO bought (proxy_id, offer_code) VALUES (?, ?) ON CONFLICT (proxy_id) DO UPDATE SET offer_code = excluded.offer_code`,
			p.ProxyID, p.OfferCode)
		if err != nil {
			return err
		}
	}
	for _, id := range ids {
		for name, value := range of.Labels {
			err := t.exec(`INSERT INTO proxy_labels (proxy_id, name, value) VALUES (?, ?, ?)
				ON CONFLICT (proxy_id, name) DO UPDATE SET value = excluded.value`, id, name, value)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// applyPlanned records the expected cost of each command of a run, for budgets and for the
// remaining wallet. If a plan is repeated, its commands move to the newer run.
func (t projector) applyPlanned(r chain.Row, f fact.SweepPlanned) error {
	for _, c := range f.Planned {
		err := t.exec(`INSERT INTO sweep_commands (command_id, schedule, slot_at, planned_at, proxies, estimate_cents) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (command_id) DO UPDATE SET slot_at = excluded.slot_at, planned_at = excluded.planned_at,
			proxies = excluded.proxies, estimate_cents = excluded.estimate_cents`,
			c.CommandID, f.Schedule, sqlite.Micros(f.Slot), r.Time, c.Proxies, c.EstimateCents)
		if err != nil {
			return err
		}
	}
	return nil
}

// applyApproved counts the commands of an approved plan on the day of the approval, and
// drops the commands of an abandoned plan that were not accepted.
func (t projector) applyApproved(r chain.Row, f fact.SweepFinished) error {
	if f.Abandoned { // only accepted commands have spent money or may still spend it
		return t.exec(`DELETE FROM sweep_commands WHERE schedule = ? AND slot_at = ?
			AND NOT EXISTS (SELECT 1 FROM commands c WHERE c.id = command_id)`, f.Schedule, sqlite.Micros(f.Slot))
	}
	held, err := sqlite.Found(t.queryRow(`SELECT count(*) FROM slots WHERE schedule = ? AND slot_at = ? AND state = 'held'`, f.Schedule, sqlite.Micros(f.Slot)))
	if err != nil || !held {
		return err
	}
	return t.exec(`UPDATE sweep_commands SET planned_at = ? WHERE schedule = ? AND slot_at = ?`, r.Time, f.Schedule, sqlite.Micros(f.Slot))
}
