// The service requests `evidence` and `resolve`, which show and resolve an operation in review.

package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs/command"
	"perennial/jobs/desk"
	"perennial/jobs/inspect"
	"perennial/ledger"
)

// EvidenceTimeout limits reading evidence from the provider while an operator waits.
const EvidenceTimeout = 2 * time.Minute

// OperationInReview returns the id of the operation that id refers to. For a command's id,
// this is the command's operation in review or, if none is in review, its only operation. If
// several operations qualify, it returns an error that lists the first few.
func OperationInReview(ctx context.Context, l *ledger.Ledger, id string, as inspect.As) (string, error) {
	if _, err := l.Operations.Operation(ctx, id); as != inspect.AsCommand && !errors.Is(err, ledger.ErrNotFound) || as == inspect.AsOperation {
		return id, err
	}
	reviews, err := l.Operations.Reviews(ctx)
	if err != nil {
		return "", err
	}
	var of []string
	for _, x := range reviews {
		if x.CommandID == id && !slices.Contains(of, x.OperationID) {
			of = append(of, x.OperationID)
		}
	}
	where := "in review"
	if len(of) == 0 {
		all, err := l.Operations.OperationsOf(ctx, id)
		if err != nil {
			return "", err
		}
		where = "and none in review"
		for _, o := range all {
			of = append(of, o.ID)
		}
	}
	switch len(of) {
	case 0:
		return id, nil // the caller reports the id as not found
	case 1:
		return of[0], nil
	}
	return "", &command.RefusedError{Reason: fmt.Sprintf("command %s has %d operations %s: say which: %s", id, len(of), where, FirstFew(of))}
}

// resolve books an operator's answer to a review and returns the new wallet balance.
func (a answers) resolve(ctx context.Context, x desk.Resolution) (verbs.Changed, error) {
	x.By = asked(ctx, x.By)
	var err error
	id, as := verbs.OperatorRequest{ID: x.ID, OperationID: x.OperationID, CommandID: x.CommandID}.Of()
	if x.ID, err = OperationInReview(ctx, a.Ledger(), id, as); err != nil {
		return verbs.Changed{}, err
	}
	if err := a.runner.Resolve(ctx, x); err != nil {
		return verbs.Changed{}, err
	}
	b, err := a.Ledger().Money.Balance(ctx, a.Name)
	if err != nil { // the operator's answer is booked even if the balance cannot be read
		return verbs.Changed{Changed: 1}, nil //nolint:nilerr // the balance is only additional information
	}
	return verbs.Changed{Changed: 1, Currency: b.Currency, WalletCents: &b.WalletCents}, nil
}

// FirstFew returns the first three ids as text, followed by the number of the others, if
// any.
func FirstFew(ids []string) string {
	const named = 3
	if len(ids) <= named {
		return strings.Join(ids, " ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(ids[:named], " "), len(ids)-named)
}

// evidence returns the evidence on an operation in review, including data read from the
// provider.
func (a answers) evidence(ctx context.Context, q verbs.OperatorRequest) (inspect.Evidence, error) {
	ctx, cancel := context.WithTimeout(ctx, EvidenceTimeout)
	defer cancel()
	id, as := q.Of()
	id, err := OperationInReview(ctx, a.Ledger(), id, as)
	if err != nil {
		return inspect.Evidence{}, err
	}
	return a.runner.Evidence(ctx, id)
}
