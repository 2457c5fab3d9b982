package jobs

import (
	"context"
	"time"

	"perennial/ledger"
)

// ListQuery says which operations a list shows.
type ListQuery struct {
	Unfinished bool              `json:"unfinished,omitempty"` // only those that have not ended
	State      ledger.State      `json:"state,omitempty"`
	Kind       ledger.Kind       `json:"kind,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"` // of the command, all of them
	Since      time.Time         `json:"since,omitzero"`   // accepted then or later
	Limit      int               `json:"limit"`
}

// listPage is how many commands are looked through at once.
const listPage = 500

// matches reports whether an operation of a command is to be shown.
func (q ListQuery) matches(c ledger.Accepted, o ledger.Operation) bool {
	return (q.State == "" || o.State == q.State) && (q.Kind == "" || o.Kind == q.Kind) && !o.AcceptedAt.Before(q.Since) &&
		(!q.Unfinished || !o.State.Ended())
}

func (q ListQuery) labelled(c ledger.Accepted) bool {
	for k, v := range q.Labels {
		if have, ok := c.Labels[k]; !ok || have != v {
			return false
		}
	}
	return true
}

// List reads operations for a table, the last accepted first.
func List(ctx context.Context, l *ledger.Ledger, q ListQuery) ([]OperationStatus, error) {
	if q.Unfinished && q.State == "" && q.Kind == "" && len(q.Labels) == 0 && q.Since.IsZero() {
		records, err := l.Unfinished(ctx, q.Limit)
		return statusesOf(records), err
	}
	out := []OperationStatus{}
	for before := int64(0); ; {
		commands, err := l.AcceptedBefore(ctx, before, listPage)
		if err != nil {
			return out, err
		}
		for _, c := range commands {
			before = c.Seq
			if !q.labelled(c) || q.Kind != "" && c.Kind != q.Kind {
				continue
			}
			records, err := l.OperationsOf(ctx, c.CommandID)
			if err != nil {
				return out, err
			}
			if len(records) > 0 && records[0].AcceptedAt.Before(q.Since) {
				return out, nil
			}
			for _, o := range records {
				if q.matches(c, o) {
					out = append(out, statusOf(o))
				}
				if len(out) >= q.Limit {
					return out, nil
				}
			}
		}
		if len(commands) < listPage {
			return out, nil
		}
	}
}

func statusesOf(records []ledger.Operation) []OperationStatus {
	out := make([]OperationStatus, 0, len(records))
	for _, o := range records {
		out = append(out, statusOf(o))
	}
	return out
}
