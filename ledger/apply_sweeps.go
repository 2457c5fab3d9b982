// Applying facts about schedules' runs and single proxies.

package ledger

import (
	"errors"
	"fmt"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

// applyProxy applies facts about single proxies, on which schedules depend.
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

// applySchedule applies an operator's change to a schedule.
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

// renameSchedule moves everything that belongs to a schedule to its new name. If the earlier
// name is "", there is nothing to move. If the new name is paused, its pause replaces that
// of the earlier name.
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

// applyWarned records the last expiry that was announced for a proxy, and the threshold of
// the announcement.
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
	var held int
	err := t.queryRow(`SELECT count(*) FROM slots WHERE schedule = ? AND slot_at = ? AND state = 'held'`, f.Schedule, sqlite.Micros(f.Slot)).Scan(&held)
	if err != nil || held == 0 {
		return err
	}
	return t.exec(`UPDATE sweep_commands SET planned_at = ? WHERE schedule = ? AND slot_at = ?`, r.Time, f.Schedule, sqlite.Micros(f.Slot))
}
