// Record books money that moved outside Perennial, in a person's name.

package jobs

import (
	"context"
	"errors"
	"fmt"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
)

// Recording is money that moved outside Perennial, as a person states it.
type Recording struct {
	Kind  string `json:"kind"` // top-up | external
	Cents int64  `json:"cents"`
	// ID makes a repeat harmless, as after a time-out: the same id books once.
	ID      string `json:"id,omitempty"`
	By      string `json:"by"`
	Reason  string `json:"reason"`
	OrderNo string `json:"order_no,omitempty"` // that it went on or came back from, where it is known
}

// maxWords bounds what a person writes into the journal, in bytes.
const maxWords = 500

// Check says what is missing or out of bounds; a RefusedError.
func (x Recording) Check() error {
	switch {
	case x.Kind != "top-up" && x.Kind != "external":
		return command.Refuse("kind %q is not known: top-up or external", decide.Bounded(x.Kind))
	case x.Cents <= 0 || x.Cents > decide.MaxLineCents:
		return command.Refuse("--cents %d cannot be recorded: it is over 0 and at most %d", x.Cents, decide.MaxLineCents)
	case x.ID != "" && command.CheckID(x.ID) != nil:
		return command.Refuse("the id %.40q is too long or cannot be printed", x.ID)
	}
	if err := CheckSigned(x.By, x.Reason); err != nil {
		return err
	}
	return checkWords(x.OrderNo)
}

// Record books money that moved outside Perennial, in a person's name. It reports
// whether it did: what was recorded under the same id before is not booked again.
func Record(ctx context.Context, l *ledger.Ledger, x Recording) (booked bool, err error) {
	if err := x.Check(); err != nil {
		return false, err
	}
	b, err := l.Binding(ctx)
	if errors.Is(err, ledger.ErrNotFound) {
		return false, command.Refuse("the ledger is not opened yet: its opening balance is booked by the first `perennial run`")
	}
	if err != nil {
		return false, err
	}
	err = l.Write(ctx, func(tx *ledger.Tx) error {
		again, err := recordedBefore(tx, x, b.Currency)
		if booked = !again; again || err != nil {
			return err
		}
		if x.Kind == "external" && x.OrderNo == "" { // renewals have no order
			if err := tx.ForgetMoved(); err != nil {
				return err
			}
		}
		return tx.Append(fact.LedgerRecorded{Movement: x.Kind, AmountCents: x.Cents, By: x.By, Reason: x.Reason, User: fact.UserOf(ctx), OrderNo: x.OrderNo, ID: x.ID})
	})
	return booked && err == nil, err
}

// Overdrawn says that what was recorded as spent leaves less than nothing in the
// book's wallet; "" when it does not. It is booked all the same: a top-up that paid
// for it may be recorded after it.
func Overdrawn(ctx context.Context, l *ledger.Ledger, x Recording) (warning string, err error) {
	b, err := l.Balance(ctx, "")
	if err != nil || x.Kind != "external" || b.WalletCents >= 0 {
		return "", err
	}
	return fmt.Sprintf("the book's wallet is %s now, and a wallet cannot hold less than nothing: "+
		"record the top-up that is missing, or take a wrong amount back with `perennial ledger record --kind top-up --cents %d`", fact.Amount(b.WalletCents, b.Currency), x.Cents), nil
}

// recordedBefore reports whether the same record is booked already under its id;
// with another content it is a RefusedError.
func recordedBefore(tx *ledger.Tx, x Recording, currency string) (bool, error) {
	if x.ID == "" {
		return false, nil
	}
	before, err := tx.RecordOf(x.ID)
	if errors.Is(err, ledger.ErrNotFound) {
		return false, nil
	}
	if err == nil && (before.Movement != x.Kind || before.AmountCents != x.Cents || before.OrderNo != x.OrderNo) {
		err = command.Refuse("the id %s has booked %s of %s before: choose another", x.ID, before.Movement, fact.Amount(before.AmountCents, currency))
	}
	return true, err
}
