package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"perennial/jobs"
	"perennial/ledger"
)

// retireRequest takes proxies out of every sweep, or back in.
type retireRequest struct {
	ProxyIDs []string `json:"proxy_ids"`
	By       string   `json:"by"`
	Reason   string   `json:"reason"`
	Undo     bool     `json:"undo,omitempty"`
}

// maxRetired bounds the proxies of one request.
const maxRetired = 1000

func (a *app) proxiesRetire() *cobra.Command {
	var q retireRequest
	c := &cobra.Command{
		Use: "retire ID…", Short: "Let proxies expire: no sweep renews them any more", Args: cobra.RangeArgs(1, maxRetired),
		Long: "Takes proxies out of every sweep. Nothing else changes: they work until they expire, and a command that names one still renews it. --undo takes them back.",
		RunE: func(cmd *cobra.Command, args []string) error {
			q.ProxyIDs = args
			return a.changeByHand(cmd.Context(), verbRetire, q)
		},
	}
	f := c.Flags()
	f.StringVar(&q.By, "by", operator(), "who decides it")
	f.StringVar(&q.Reason, "reason", "asked for on the command line", "why")
	f.BoolVar(&q.Undo, "undo", false, "let sweeps renew them again")
	return c
}

// retire changes all of the proxies or none. What is as it should be is not
// told again.
func (a *accountHost) retire(ctx context.Context, q retireRequest) (changedAnswer, error) {
	var changed changedAnswer
	if len(q.ProxyIDs) == 0 || len(q.ProxyIDs) > maxRetired {
		return changed, &jobs.RefusedError{Reason: fmt.Sprintf("%d proxies: name 1 to %d", len(q.ProxyIDs), maxRetired)}
	}
	q.By = asked(ctx, q.By)
	if err := jobs.CheckSigned(q.By, q.Reason); err != nil {
		return changed, err
	}
	err := a.ledger.Write(ctx, func(tx *ledger.Tx) error {
		changed.Changed = 0 // Write may run this twice
		for _, id := range q.ProxyIDs {
			done, err := retireOne(ctx, tx, q, id)
			if err != nil {
				return err
			}
			if done {
				changed.Changed++
			}
		}
		return nil
	})
	return changed, err
}

func retireOne(ctx context.Context, tx *ledger.Tx, q retireRequest, id string) (changed bool, err error) {
	known, err := tx.KnowsProxy(id)
	if err != nil {
		return false, err
	}
	if !known {
		return false, &jobs.RefusedError{Reason: fmt.Sprintf("proxy %.80q was never listed and no command named it: check the id (`perennial proxies list`)", id)}
	}
	retired, err := tx.Retired(id)
	if err != nil || retired != q.Undo {
		return false, err
	}
	if q.Undo {
		return true, tx.Append(ledger.ProxyReinstated{ProxyID: id, By: q.By, Reason: q.Reason, User: ledger.UserOf(ctx)})
	}
	return true, tx.Append(ledger.ProxyRetired{ProxyID: id, By: q.By, Reason: q.Reason, User: ledger.UserOf(ctx)})
}
