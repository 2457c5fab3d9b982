// Applying a restore and the end of a pause: which operations may have been sent after the
// last restored row.

package ledger

import (
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

// CauseRestored is the cause of the pause that follows a restore: requests that were sent
// after the ledger's last row may be lost.
const CauseRestored = "restored"

// StaleAll marks every proxy as stale, because a restored ledger read the proxies before the
// lost time.
func (t observations) StaleAll() error {
	return t.execFleet(`UPDATE proxies SET seen_at = 0, last_seen_at = 0 WHERE seen_at <> 0 OR last_seen_at <> 0`)
}

// applyRestored starts an epoch. Every unfinished operation may have been sent after the
// last row. Therefore a refusal by the provider is not trusted, and no unfinished operation
// is sent after its retry window.
func (t projector) applyRestored(f fact.LedgerOpened) error {
	since := sqlite.Micros(f.Restored.Since)
	err := t.w.execOne(`UPDATE binding SET epoch = ?, forgotten_since = min(coalesce(forgotten_since, ?), ?)`, f.Epoch, since, since)
	if err != nil {
		return err
	}
	return t.presumeSent(f.Restored.AppID)
}

// applyResumed ends a pause. If the lost time of a restore was not explained, operations
// accepted during the pause may also have been sent before, because their commands may have
// been published in the lost time.
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
