// Accepted commands, the newest first.

package tables

import (
	"context"
	"encoding/json"

	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

// Accepted is one accepted command, as lists show it.
type Accepted struct {
	Seq       int64
	CommandID string
	Kind      fact.Kind
	Labels    map[string]string
}

// AcceptedBefore lists up to limit commands that were accepted in rows before a journal
// sequence, newest first. A sequence of 0 starts with the newest command. Archived commands
// are left out.
func (l *Operations) AcceptedBefore(ctx context.Context, before int64, limit int) ([]Accepted, error) {
	if before <= 0 {
		before = 1 << 62
	}
	return sqlite.Collect(l.query(ctx, `SELECT seq, operation, data ->> '$.kind', coalesce(data -> '$.labels', '{}') FROM journal
		WHERE seq < ? AND type = 'command.accepted' ORDER BY seq DESC LIMIT +?`, before, limit), func(s sqlite.Scanner) (a Accepted, err error) {
		var labels string
		if err := s.Scan(&a.Seq, &a.CommandID, &a.Kind, &labels); err != nil {
			return a, err
		}
		return a, json.Unmarshal([]byte(labels), &a.Labels)
	})
}
