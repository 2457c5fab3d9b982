// Refused contents of a command ID; each content is answered once.

package ledger

import (
	"context"

	"perennial/ledger/sqlite"
)

// MaxRefusals limits how many contents of one command ID get a fact for their refusal or
// conflict. Without it a producer could fill the journal with ever new contents.
const MaxRefusals = 32

// RefusedContent reports whether this content of a command was refused or conflicted with
// the accepted content. contents is the number of such contents of the ID, up to
// MaxRefusals.
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
	err = l.read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM rejections WHERE id = ? AND content_hash = ?)`, commandID, hash).Scan(&refused)
	if err != nil || refused {
		return refused, err
	}
	err = sqlite.IfMade(ctx, l.read, "refused_contents", func() error {
		return l.read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM refused_contents WHERE command_id = ? AND content_hash = ?)`,
			commandID, hash).Scan(&refused)
	})
	return refused, err
}

// applyRefused records a refused content. Older journals contain some contents twice.
func (t projector) applyRefused(commandID, hash string) error {
	return t.exec(`INSERT INTO refused_contents (command_id, content_hash) VALUES (?, ?) ON CONFLICT DO NOTHING`, commandID, hash)
}
