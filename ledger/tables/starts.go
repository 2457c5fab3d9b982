// The runner that led the account when a request was sent.

package tables

import (
	"context"
	"errors"
	"time"

	"perennial/ledger/sqlite"
)

// LastHolder returns the runner that last started to lead the account; "" if the journal has
// no start.
func (l *Sweeps) LastHolder(ctx context.Context) (holder string, err error) {
	holder, _, err = l.lastStart(ctx)
	return holder, err
}

// LastVersion returns the program's version at the last start of a runner; "" if the journal
// has no start.
func (l *Sweeps) LastVersion(ctx context.Context) (version string, err error) {
	_, version, err = l.lastStart(ctx)
	return version, err
}

func (l *Sweeps) lastStart(ctx context.Context) (holder, version string, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT data ->> '$.holder', data ->> '$.version' FROM journal INDEXED BY journal_starts
		WHERE type = 'runner.started' AND seq > 0 ORDER BY seq DESC LIMIT 1`).Scan(&holder, &version)
	if err = sqlite.NotFound(err); errors.Is(err, sqlite.ErrNone) {
		err = nil
	}
	return holder, version, err
}

// Inherited reports whether a runner other than holder made an operation's last attempt.
// since is when the first runner after that attempt started; zero if none has. If the
// journal lacks the attempt, or a start before it, another runner is assumed.
func (l *Sweeps) Inherited(ctx context.Context, operationID, holder string) (since time.Time, inherited bool, err error) {
	const sent = `(SELECT max(seq) FROM journal WHERE operation = ?1 AND operation <> '' AND type = 'operation.sending')`
	var by string
	var begun int64
	err = l.read.QueryRowContext(ctx, `SELECT
		coalesce((SELECT data ->> '$.holder' FROM journal INDEXED BY journal_starts WHERE type = 'runner.started' AND seq < `+sent+` ORDER BY seq DESC LIMIT 1), ''),
		coalesce((SELECT time FROM journal INDEXED BY journal_starts WHERE type = 'runner.started' AND seq > `+sent+` ORDER BY seq LIMIT 1), 0)`, operationID).
		Scan(&by, &begun)
	if err != nil || by == holder {
		return time.Time{}, false, err
	}
	if begun > 0 {
		since = sqlite.FromMicros(begun)
	}
	return since, true, nil
}
