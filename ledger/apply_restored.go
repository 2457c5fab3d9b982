// What a restore does to the projections: which operations may have been sent since the
// last restored row, and what accounts for them.

package ledger

import (
	"perennial/ledger/fact"
)

// CauseRestored is the cause of the account's pause after a restore: the
// ledger may have forgotten what was sent since its last row.
const CauseRestored = "restored"

// StaleAll is Stale of every proxy: what a restored ledger saw of them was seen
// before the time that it has forgotten.
func (t *Tx) StaleAll() error {
	return t.exec(`UPDATE proxies SET seen_at = 0, last_seen_at = 0 WHERE seen_at <> 0 OR last_seen_at <> 0`)
}

// applyRestored begins an epoch: what has not ended may have been sent since
// the last row, so that no refusal of it is believed and nothing of it is sent
// after the window.
func (t projector) applyRestored(f fact.LedgerOpened) error {
	since := micros(f.Restored.Since)
	err := t.w.execOne(`UPDATE binding SET epoch = ?, forgotten_since = min(coalesce(forgotten_since, ?), ?)`, f.Epoch, since, since)
	if err != nil {
		return err
	}
	return t.presumeSent(f.Restored.AppID)
}

// applyResumed ends a pause. Where it is that of a restore and its gap is not
// explained, what was accepted meanwhile may have been sent before, too: its
// producer may have asked for it in the time that is forgotten.
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

// presumeSent counts, of every operation that could be sent next and has no
// attempt that may have executed, one that may have, at the earliest moment that
// is forgotten. A send in progress counts by itself when the runner starts.
func (t projector) presumeSent(appID string) error {
	t.w.known.clear()
	return t.exec(`UPDATE operations SET ambiguous = 1, first_ambiguous_at = (SELECT forgotten_since FROM binding),
		app_id = CASE WHEN app_id = '' THEN ? ELSE app_id END, version = version + 1
		WHERE live = 1 AND ambiguous = 0 AND (state = 'accepted' OR state = 'held' OR state = 'waiting')
		AND (SELECT forgotten_since FROM binding) IS NOT NULL`, appID)
}
