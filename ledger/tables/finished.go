// Results of commands: the last command.finished of each command, and the proxies that did
// not fit into it.

package tables

import (
	"context"
	"encoding/json"
	"errors"

	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

// LastFinished reads the last command.finished of a command. It returns nil if an operator
// has reopened the command, and sqlite.ErrNone if it has never finished.
func (l *Operations) LastFinished(ctx context.Context, id string) (*fact.CommandFinished, error) {
	var seq int64
	err := l.read.QueryRowContext(ctx, `SELECT seq FROM finished WHERE command_id = ?`, id).Scan(&seq)
	if err != nil {
		return nil, sqlite.NotFound(err)
	}
	if ended, err := l.CommandEnded(ctx, id); err != nil || !ended {
		return nil, err // reopened
	}
	row, err := l.journal.Row(ctx, seq)
	if err != nil {
		return nil, err
	}
	var f fact.CommandFinished
	return &f, json.Unmarshal([]byte(row.Data), &f)
}

// Knows returns sqlite.ErrNone for a command that was neither accepted nor refused.
func (l *Operations) Knows(ctx context.Context, id string) error {
	_, err := l.Command(ctx, id)
	if errors.Is(err, sqlite.ErrNone) {
		_, err = l.Rejection(ctx, id)
	}
	return err
}

// FinishedPage is one page of a finished command's lines; each line is a proxy.
type FinishedPage struct {
	Lines      []fact.FinishedLine `json:"lines"`
	LinesTotal int                 `json:"lines_total" doc:"The number of all lines."`
}

// FinishedLines reads up to limit lines of a command. after is the number of lines to skip.
// The lines are those of command.finished. It returns sqlite.ErrNone for an unknown command.
func (l *Operations) FinishedLines(ctx context.Context, id string, after, limit int) (p FinishedPage, err error) {
	operations, err := l.OperationsOf(ctx, id)
	if err == nil && len(operations) == 0 {
		_, err = l.Rejection(ctx, id)
		return FinishedPage{Lines: []fact.FinishedLine{}}, err
	}
	if err != nil {
		return p, err
	}
	lines, err := LinesOfCommand(reader{ctx, l.read}, id, operations, mayHaveLeftOut)
	p.LinesTotal = len(lines.All)
	from := min(max(after, 0), p.LinesTotal)
	p.Lines = append([]fact.FinishedLine{}, lines.All[from:min(from+limit, p.LinesTotal)]...)
	return p, err
}

// mayHaveLeftOut makes LinesOfCommand look for proxies that were skipped on arrival.
const mayHaveLeftOut = true

// reader is a sqlite.Source outside a transaction.
type reader struct {
	ctx context.Context
	q   sqlite.Queryer
}

func (r reader) Query(query string, args ...any) sqlite.Rows {
	return sqlite.Query(r.ctx, r.q, query, args...)
}

func (r reader) QueryRow(query string, args ...any) sqlite.Scanner {
	return r.q.QueryRowContext(r.ctx, query, args...)
}
