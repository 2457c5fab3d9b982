// `perennial retry`, for ids or a filter.

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs"
	"perennial/jobs/inspect"
	"perennial/ledger/fact"
)

// retryFilter selects rejected operations.
type retryFilter struct {
	list  verbs.ListRequest
	since time.Duration
	limit int
}

// retriedLine is the JSON output for one of several ids.
type retriedLine struct {
	ID      string `json:"id"`
	Changed int    `json:"changed"`
	Reason  string `json:"reason,omitempty"` // the reason if nothing changed
}

func (a sendCommands) retryCommand() *cobra.Command {
	var q verbs.RetryRequest
	var which retryFilter
	as := ""
	c := &cobra.Command{
		Use: "retry [ID...]", Short: "Retry a command that failed without a charge",
		RunE: func(cmd *cobra.Command, ids []string) error {
			of, err := idOf(as)
			if err == nil {
				err = which.check(ids)
			}
			switch {
			case err != nil:
				return err
			case len(ids) == 1:
				q.OperatorRequest = q.Named(ids[0], of)
				return sendChange(cmd.Context(), a.app, verbs.Retry, q, "asked again: "+ids[0])
			}
			return a.retryMany(cmd.Context(), ids, of, which, q)
		},
	}
	f := c.Flags()
	signed(c, &q.By, &q.Reason, "who does it", askedFor)
	asFlag(c, &as)
	f.StringVar(&which.list.State, "state", "", "instead of ids: retry operations in this state; rejected is the only state allowed")
	f.Var(span{&which.since}, "since", "with --state: only operations accepted within this time, such as 1d or 12h")
	f.StringVar(&which.list.Kind, "kind", "", fmt.Sprintf("with --state: only operations of this kind, one of %v", jobs.Kinds()))
	f.StringToStringVar(&which.list.Labels, "label", nil, "with --state: only operations of commands with this label, key=value; may be repeated")
	limitFlag(c, &which.limit, 1000, "with --state: how many to retry, oldest first")
	return c
}

// check refuses a missing, contradictory or too general selection.
func (w *retryFilter) check(ids []string) error {
	narrowed := w.list.State != "" || w.since > 0 || w.list.Kind != "" || len(w.list.Labels) > 0
	switch {
	case (len(ids) > 0) == narrowed:
		return usage("say which to retry: IDs, or --state rejected --since SPAN")
	case narrowed && (fact.State(w.list.State) != fact.StateRejected || w.since <= 0):
		return usage("a filter needs --state rejected, which alone can be retried, and --since, such as 1d")
	}
	w.list.All, w.list.Limit, w.list.Since = true, verbs.MaxListed, time.Now().Add(-w.since)
	return checkList(w.list)
}

// retryMany retries the operations with these ids, or those that the filter selects. After a
// crash, a second call with the filter skips operations that were already retried.
func (a sendCommands) retryMany(ctx context.Context, ids []string, of inspect.As, which retryFilter, q verbs.RetryRequest) error {
	r, err := a.connect()
	if err != nil {
		return err
	}
	defer r.Close()
	filtered := len(ids) == 0
	if filtered {
		q.UnlessRepeated, of = true, inspect.AsOperation
		if ids, err = rejected(ctx, r, which.list); err != nil {
			return err
		}
	}
	done, refused, list := 0, 0, a.listing("ID", "CHANGED", "REASON")
	for _, id := range ids {
		if filtered && done == which.limit {
			break
		}
		q.OperatorRequest = verbs.OperatorRequest{By: q.By, Reason: q.Reason}.Named(id, of)
		changed, err := ask(ctx, r, verbs.Retry, q)
		line := retriedLine{ID: id, Changed: changed.Changed}
		if no, ok := errors.AsType[*exitError](err); ok && no.code == ExitFailed {
			line.Reason, err = no.Error(), nil
			refused++
		}
		if err != nil {
			return list.end(fmt.Errorf("%d of %d were asked again, and then: %w\ncall this again: it continues", done, len(ids), err))
		}
		if line.Changed > 0 {
			done++
		}
		if err := list.add("", line, id, strconv.Itoa(line.Changed), printable(line.Reason)); err != nil {
			return err
		}
	}
	if filtered || refused == 0 {
		return list.end(nil)
	}
	code := ExitPartly // refusals matter only for ids that the user gave
	if done == 0 {
		code = ExitFailed
	}
	return list.end(&exitError{code, fmt.Errorf("%d of %d were not asked again", refused, len(ids))})
}

// rejected returns the ids of rejected operations, oldest first. It omits commands that were
// refused before acceptance, because they have no operation. Their producer can publish them
// again with the original id.
func rejected(ctx context.Context, r *remote, q verbs.ListRequest) (ids []string, err error) {
	all, err := ask(ctx, r, verbs.List, q)
	for _, o := range slices.Backward(all) {
		if o.OperationID != "" {
			ids = append(ids, o.OperationID)
		}
	}
	return ids, err
}
