// Following: the rows of another runner on the stream are folded into this file with the
// same apply.

package ledger

import (
	"context"
	"errors"
	"fmt"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
)

// Fold checks the stream's rows after the ledger's last row against the hash chain and
// commits them. If a row is missing or has a wrong hash, it returns a *chain.BrokenError and
// commits none of the rows. It does the same for a fact that this version does not know (a
// *fact.UnknownError). A ledger that leads returns ErrLeads.
func (l *Ledger) Fold(ctx context.Context, rows []chain.Row) error {
	if !l.follows {
		return fmt.Errorf("fold into %s: its own file is its journal", l.path)
	}
	return l.WhileFollowing(ctx, func(tx *Tx) error {
		tx.finishing = false // the rows include command.finished
		for _, r := range rows {
			if err := tx.fold(r); err != nil {
				return err
			}
		}
		return nil
	})
}

// WhileFollowing is Write for a ledger that does not lead. A ledger that leads returns
// ErrLeads.
func (l *Ledger) WhileFollowing(ctx context.Context, do func(*Tx) error) error {
	return l.Write(ctx, func(tx *Tx) error {
		if tx.w.leading != nil {
			return ErrLeads
		}
		return do(tx)
	})
}

// fold checks a row against the hash chain, stores it and applies it.
func (t *Tx) fold(r chain.Row) (err error) {
	if t.w.buf, err = t.w.head.FollowedBy(r, t.w.buf); err != nil {
		return err
	}
	f, err := factOf(r)
	if err != nil {
		return err
	}
	if err := t.insert(r); err != nil {
		return err
	}
	if err := t.applyAt(r, f); err != nil {
		return err
	}
	t.rows = append(t.rows, r)
	return nil
}

// factOf decodes the fact of a row, or returns a *chain.BrokenError.
func factOf(r chain.Row) (fact.Fact, error) {
	f, err := fact.Decode(r.Type, []byte(r.Data))
	if err == nil {
		return f, nil
	}
	broken := &chain.BrokenError{Check: "fold", Seq: r.Seq, Detail: err.Error()}
	if unknown, ok := errors.AsType[*fact.UnknownError](err); ok {
		broken.Err = unknown
	}
	return nil, broken
}

// applyAt applies the fact of a stored row at the row's time and makes the row the head.
func (t *Tx) applyAt(r chain.Row, f fact.Fact) error {
	defer t.setNow(t.now)
	t.setNow(r.Time)
	if err := t.w.readBooked(); err != nil {
		return err
	}
	if err := (projector{t}).project(r, f); err != nil {
		return fmt.Errorf("fold row %d (%s): %w", r.Seq, r.Type, err)
	}
	t.w.head = r.Head()
	return nil
}

// Follows reports whether the ledger follows a stream.
func (l *Ledger) Follows() bool { return l.follows }
