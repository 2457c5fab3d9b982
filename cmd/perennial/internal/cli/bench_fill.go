// `perennial bench --rows`: a ledger with a history, made before the runner opens it.

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/upstream"
)

// fillPlan is what bench writes to the process that fills a ledger, on its standard input.
type fillPlan struct {
	Path        string       `json:"path"`
	Rows        int64        `json:"rows"`
	Binding     fact.Binding `json:"binding"`
	AppID       string       `json:"app_id"`
	WalletCents int64        `json:"wallet_cents"` // that the history ends with
}

// fillAnswer is what it says when it is done.
type fillAnswer struct {
	Rows  int64  `json:"rows"`
	Error string `json:"error,omitempty"`
}

// fillName is the hidden command that the process runs.
const fillName = "bench-fill"

func (a *app) benchFillCommand() *cobra.Command {
	return &cobra.Command{
		Use: fillName, Hidden: true, Args: cobra.NoArgs,
		Short: "What fills a ledger for `bench --rows`, which starts it",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var plan fillPlan
			in := json.NewDecoder(a.stdin)
			if err := in.Decode(&plan); err != nil {
				return usage("%s is started by `perennial bench`, which says what to do: %w", fillName, err)
			}
			ctx, cancel := untilInputEnds(cmd.Context(), in, nil)
			defer cancel()
			var answer fillAnswer
			var err error
			if answer.Rows, err = plan.fill(ctx); err != nil {
				answer.Error = cmpCause(ctx, err).Error()
			}
			return errors.Join(json.NewEncoder(a.stdout).Encode(answer), silentFailure(err))
		},
	}
}

// fill gives each ledger its rows, in a process of its own: neither its memory nor what it
// allocates is the runner's. What the rows say is published by the runner when it starts,
// before anything is measured.
func (b *bench) fill(ctx context.Context, l load) error {
	if b.rows == 0 {
		return nil
	}
	if err := os.MkdirAll(l.config.DataDir, 0o700); err != nil {
		return err
	}
	for i, name := range l.accounts {
		account, err := b.clients[i].Account(ctx)
		if err != nil {
			return err
		}
		wallet, err := b.clients[i].Wallet(ctx)
		if err != nil {
			return err
		}
		p, err := b.startHelper(ctx, "the filling of the ledger", nil, fillName)
		if err != nil {
			return err
		}
		p.order(fillPlan{
			Path: l.config.LedgerPath(name), Rows: b.rows, AppID: benchAppID(i), WalletCents: wallet.BalanceCents,
			Binding: fact.Binding{AccountID: account.AccountID, Environment: string(b.clients[i].Environment()), BaseURL: b.clients[i].BaseURL(), Currency: wallet.Currency, Epoch: "bench"},
		})
		var a fillAnswer
		err = p.answer(ctx, &a)
		p.stop()
		if err == nil && a.Error != "" {
			err = errors.New(a.Error)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const (
	// fillRows is how many rows a renewal of one proxy leaves: accepted, sending,
	// completed, finished.
	fillRows = 4
	// fillGroup is how many renewals one transaction holds.
	fillGroup = 500
	// fillFleet is how many proxies the history renews in turn, at most.
	fillFleet = 100_000
	// fillPast is how long ago the history begins; it ends a day ago.
	fillPast = 365 * 24 * time.Hour
)

// fill writes finished renewals through the ledger, as the runner would have: every
// projection holds them, and every row is in the chain. The wallet of the book is, behind
// them, what the provider's is.
func (p fillPlan) fill(ctx context.Context) (rows int64, err error) {
	renewals := (p.Rows + fillRows - 1) / fillRows
	var done atomic.Int64
	begin := time.Now().Add(-fillPast)
	l, err := ledger.Open(ctx, ledger.Config{Path: p.Path, Clock: func() time.Time {
		return begin.Add(time.Duration(float64(fillPast-24*time.Hour) * float64(done.Load()) / float64(renewals)))
	}})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := l.Write(ctx, func(tx *ledger.Tx) error {
		return tx.Append(fact.LedgerOpened{
			AccountID: p.Binding.AccountID, Environment: p.Binding.Environment, BaseURL: p.Binding.BaseURL, Currency: p.Binding.Currency,
			OpeningCents: p.WalletCents + renewals*benchCents, Epoch: p.Binding.Epoch,
		})
	}); err != nil {
		return 0, err
	}
	for first := int64(0); first < renewals; first = done.Load() {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		end := min(first+fillGroup, renewals)
		if err := l.Write(ctx, func(tx *ledger.Tx) error {
			for n := first; n < end; n++ {
				if err := p.renew(tx, n); err != nil {
					return fmt.Errorf("renewal %d: %w", n, err)
				}
			}
			return nil
		}); err != nil {
			return 0, err
		}
		done.Store(end)
	}
	rows, _, err = l.Head(ctx)
	return rows, err
}

// filled is the n-th renewal of the history.
func filled(n int64) (id, proxy string) {
	return "filled-" + strconv.FormatInt(n, 10), "px_of_old_" + strconv.FormatInt(n%fillFleet, 10)
}

// renew writes one whole renewal: a command that is accepted, sent, completed and charged.
func (p fillPlan) renew(tx *ledger.Tx, n int64) error {
	id, proxy := filled(n)
	ids := []string{proxy}
	cmd, err := command.Parse(fact.KindRenewal, []byte(`{"id":"`+id+`","proxy_ids":["`+proxy+`"],"duration_days":30}`), command.Rules{Environment: upstream.Environment(p.Binding.Environment)})
	if err != nil {
		return err
	}
	content, hash, err := cmd.Content()
	if err != nil {
		return err
	}
	body, err := upstream.RenewBody(upstream.RenewRequest{ProxyIDs: ids, DurationDays: cmd.DurationDays})
	if err != nil {
		return err
	}
	planned := cmd.Operations(p.Binding, ids, false)
	ref := fact.Ref{CommandID: id, OperationID: planned[0].OperationID}
	return tx.Append(
		fact.CommandAccepted{Ref: fact.Ref{CommandID: id}, Kind: fact.KindRenewal, ContentHash: hash, Content: content, DurationDays: cmd.DurationDays, Operations: planned},
		fact.OperationSending{
			Ref: ref, Attempt: 1, Key: planned[0].Key, Body: string(body), SentAt: tx.Now(), AppID: p.AppID,
			Observed: map[string]time.Time{proxy: tx.Now().Add(24 * time.Hour)},
		},
		fact.RenewalSettled{
			Ref: ref, Status: upstream.RenewalCompleted, Attempt: 1,
			Lines: fact.Lines{ChargedCents: benchCents, Items: []fact.Line{{ProxyID: proxy, State: fact.LineSucceeded, ChargedCents: benchCents}}},
		})
}
