// Results of commands: the last command.finished of each, and the lines beyond those it
// names.

package ledger

import (
	"context"
	"encoding/json"
	"errors"

	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

// Finished reads the last command.finished of a command, nil while the command is pending
// or needs review. A command that ended before such facts existed gets its fact now. The
// error is ErrNotFound for an id that never arrived.
func (l *Ledger) Finished(ctx context.Context, id string) (*fact.CommandFinished, error) {
	f, err := l.lastFinished(ctx, id)
	if !errors.Is(err, ErrNotFound) {
		return f, err
	}
	if ended, err := l.CommandEnded(ctx, id); err != nil || !ended {
		return nil, errors.Join(err, l.knows(ctx, id))
	}
	err = l.Write(ctx, func(tx *Tx) error {
		accepted, err := l.Acceptance(ctx, id) // the acceptance never changes
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		if f, err := l.Rejection(ctx, id); accepted.CommandID == "" && err == nil {
			return tx.finishRefused(fact.CommandRejected{Ref: fact.Ref{CommandID: id}, Code: f.Code, Reason: f.Reason})
		}
		return tx.finish(fact.Ref{CommandID: id, Labels: accepted.Labels, Trace: accepted.Trace})
	})
	if err != nil {
		return nil, err
	}
	return l.lastFinished(ctx, id)
}

// lastFinished reads the last command.finished of a command, nil if the command is open
// again; ErrNotFound if it has none.
func (l *Operations) lastFinished(ctx context.Context, id string) (*fact.CommandFinished, error) {
	var seq int64
	err := l.read.QueryRowContext(ctx, `SELECT seq FROM finished WHERE command_id = ?`, id).Scan(&seq)
	if err != nil {
		return nil, sqlite.NotFound(err)
	}
	if ended, err := l.CommandEnded(ctx, id); err != nil || !ended {
		return nil, err // open again
	}
	row, err := l.journal.Row(ctx, seq)
	if err != nil {
		return nil, err
	}
	var f fact.CommandFinished
	return &f, json.Unmarshal([]byte(row.Data), &f)
}

// knows returns ErrNotFound for a command that never arrived.
func (l *Operations) knows(ctx context.Context, id string) error {
	_, err := l.Command(ctx, id)
	if errors.Is(err, ErrNotFound) {
		_, err = l.Rejection(ctx, id)
	}
	return err
}

// FinishedPage is a part of a finished command's lines.
type FinishedPage struct {
	Lines      []fact.FinishedLine `json:"lines"`
	LinesTotal int                 `json:"lines_total" doc:"The number of all lines."`
}

// FinishedLines reads up to limit lines of a command, as command.finished names them, after
// skipping the first after lines. The error is ErrNotFound for an unknown command.
func (l *Operations) FinishedLines(ctx context.Context, id string, after, limit int) (p FinishedPage, err error) {
	operations, err := l.OperationsOf(ctx, id)
	if err == nil && len(operations) == 0 {
		_, err = l.Rejection(ctx, id)
		return FinishedPage{Lines: []fact.FinishedLine{}}, err
	}
	if err != nil {
		return p, err
	}
	lines, err := linesOfCommand(reader{ctx, l.reading}, id, operations, mayHaveLeftOut)
	p.LinesTotal = len(lines.all)
	from := min(max(after, 0), p.LinesTotal)
	p.Lines = append([]fact.FinishedLine{}, lines.all[from:min(from+limit, p.LinesTotal)]...)
	return p, err
}

// mayHaveLeftOut makes linesOfCommand look for skipped proxies.
const mayHaveLeftOut = true

// reader is a source that reads committed data.
type reader struct {
	ctx context.Context
	r   reading
}

func (r reader) query(query string, args ...any) sqlite.Rows { return r.r.query(r.ctx, query, args...) }

func (r reader) queryRow(query string, args ...any) sqlite.Scanner {
	return r.r.read.QueryRowContext(r.ctx, query, args...)
}
