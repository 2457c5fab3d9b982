// Contents refused under a command's id; each is answered once.

package ledger

import (
	"context"

	"perennial/ledger/sqlite"
)

// MaxRefusals bounds the contents of one command id that get a fact of their refusal or
// conflict, because a producer could send new ones without end.
const MaxRefusals = 32

// RefusedContent reports whether this content of a command was refused, or conflicted with
// the accepted one. It also counts such contents of the id, up to MaxRefusals.
func (t *Tx) RefusedContent(commandID, hash string) (before bool, contents int64, err error) {
	var same int64
	err = t.queryRow(`SELECT (SELECT count(*) FROM refused_contents WHERE command_id = ?1 AND content_hash = ?2),
		(SELECT count(*) FROM (SELECT 1 FROM refused_contents WHERE command_id = ?1 LIMIT +?3))`, commandID, hash, MaxRefusals).
		Scan(&same, &contents)
	return same > 0, contents, err
}

// RefusedContent reports whether this content of a command was refused, or conflicted with
// the accepted one. For rows archived by an older version it knows only the last content of
// an id.
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

// applyRefused records a refused content. Older journals hold some contents twice.
func (t projector) applyRefused(commandID, hash string) error {
	return t.exec(`INSERT INTO refused_contents (command_id, content_hash) VALUES (?, ?) ON CONFLICT DO NOTHING`, commandID, hash)
}
