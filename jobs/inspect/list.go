package inspect

import (
	"context"
	"slices"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// ListQuery selects the operations of a list.
type ListQuery struct {
	Unfinished bool              `json:"unfinished,omitempty"` // only operations that have not ended
	State      fact.State        `json:"state,omitempty"`
	Kind       fact.Kind         `json:"kind,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"` // labels that the command must have
	Since      time.Time         `json:"since,omitzero"`   // accepted at this time or later
	Limit      int               `json:"limit"`

	currency string // the ledger's currency
}

const listPage = 500

func (q ListQuery) matches(o fact.Operation) bool {
	return (q.State == "" || o.State == q.State) && !o.AcceptedAt.Before(q.Since) && (!q.Unfinished || !o.State.Ended())
}

func (q ListQuery) asksFor(c tables.Accepted) bool {
	for k, v := range q.Labels {
		if have, ok := c.Labels[k]; !ok || have != v {
			return false
		}
	}
	return q.Kind == "" || c.Kind == q.Kind
}

// plain reports whether Unfinished is the only filter.
func (q ListQuery) plain() bool {
	return q.Unfinished && q.State == "" && q.Kind == "" && len(q.Labels) == 0 && q.Since.IsZero()
}

func (q ListQuery) hasRefused() bool {
	ofState := q.State == fact.StateRejected || q.State == "" && !q.Unfinished
	return ofState && q.Kind == "" && len(q.Labels) == 0
}

// List returns the operations that a query selects, newest first.
func List(ctx context.Context, l *ledger.Ledger, q ListQuery) ([]OperationStatus, error) {
	currency, err := l.Currency(ctx)
	if err != nil {
		return nil, err
	}
	if q.plain() {
		records, err := l.Operations.Unfinished(ctx, q.Limit)
		return statusesOf(records, currency), err
	}
	q.currency = currency
	accepted, err := q.ofAccepted(ctx, l)
	if err != nil || !q.hasRefused() {
		return accepted, err
	}
	// A command that was refused on arrival has no operation. Only the hash of its content is
	// stored, so its kind and labels are unknown.
	refused, err := l.Operations.Rejections(ctx, q.Since, q.Limit)
	for _, x := range refused {
		accepted = append(accepted, OperationStatus{
			CommandID: x.CommandID, State: fact.StateRejected, Reason: x.Reason, Code: x.Code, AcceptedAt: x.At, Currency: currency, Lines: []tables.RenewalLine{},
		})
	}
	slices.SortStableFunc(accepted, func(x, y OperationStatus) int { return y.AcceptedAt.Compare(x.AcceptedAt) })
	return accepted[:min(len(accepted), q.Limit)], err
}

func (q ListQuery) ofAccepted(ctx context.Context, l *ledger.Ledger) ([]OperationStatus, error) {
	out := []OperationStatus{}
	for before := int64(0); ; {
		commands, err := l.Operations.AcceptedBefore(ctx, before, listPage)
		if err != nil {
			return out, err
		}
		for _, c := range commands {
			before = c.Seq
			older, err := q.list(ctx, l, c, &out)
			if err != nil || older || len(out) >= q.Limit {
				return out[:min(len(out), q.Limit)], err
			}
		}
		if len(commands) < listPage {
			return out, nil
		}
	}
}

// Adds the matching operations of one command to out. older is true if this command was accepted
// before the requested time. All commands that follow it are older too.
func (q ListQuery) list(ctx context.Context, l *ledger.Ledger, c tables.Accepted, out *[]OperationStatus) (older bool, err error) {
	if !q.asksFor(c) {
		return false, nil
	}
	records, err := l.Operations.OperationsOf(ctx, c.CommandID)
	if err != nil || len(records) > 0 && records[0].AcceptedAt.Before(q.Since) {
		return true, err
	}
	for _, o := range records {
		if q.matches(o) {
			one, err := ListedStatus(ctx, l, o, q.currency)
			if err != nil {
				return false, err
			}
			*out = append(*out, one)
		}
	}
	return false, nil
}

func statusesOf(records []fact.Operation, currency string) []OperationStatus {
	out := make([]OperationStatus, 0, len(records))
	for _, o := range records {
		out = append(out, OperationStatusOf(o, currency))
	}
	return out
}
