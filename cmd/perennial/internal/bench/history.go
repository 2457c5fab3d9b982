package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/upstream"
)

// History describes the rows that a ledger gets before the runner opens it.
type History struct {
	Path        string
	Rows        int64
	Binding     fact.Binding
	AppID       string
	WalletCents int64 // wallet balance after the history
}

const (
	// fillRows is the number of rows of one renewal: accepted, sending, completed and finished.
	fillRows  = 4
	fillGroup = 500
	// fillFleet limits how many proxies the history renews. It renews them round-robin.
	fillFleet = 100_000
	// fillPast is the age of the history's first row. The last row is one day old.
	fillPast = 365 * 24 * time.Hour
)

// fill writes finished renewals as the runner does, with all projections and the hash chain.
func (h History) fill(ctx context.Context) (err error) {
	renewals := (h.Rows + fillRows - 1) / fillRows
	var done atomic.Int64
	begin := time.Now().Add(-fillPast)
	l, err := ledger.Open(ctx, ledger.Config{Path: h.Path, Clock: func() time.Time {
		return begin.Add(time.Duration(float64(fillPast-24*time.Hour) * float64(done.Load()) / float64(renewals)))
	}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := l.Write(ctx, func(tx *ledger.Tx) error {
		return tx.Append(fact.LedgerOpened{
			AccountID: h.Binding.AccountID, Environment: h.Binding.Environment, BaseURL: h.Binding.BaseURL, Currency: h.Binding.Currency,
			OpeningCents: h.WalletCents + renewals*cents, Epoch: h.Binding.Epoch,
		})
	}); err != nil {
		return err
	}
	for first := int64(0); first < renewals; first = done.Load() {
		end := min(first+fillGroup, renewals)
		if err := l.Write(ctx, func(tx *ledger.Tx) error {
			for n := first; n < end; n++ {
				if err := h.renew(tx, n); err != nil {
					return fmt.Errorf("renewal %d: %w", n, err)
				}
			}
			return nil
		}); err != nil {
			return err
		}
		done.Store(end)
	}
	return nil
}

func filled(n int64) (id, proxy string) {
	return "filled-" + strconv.FormatInt(n, 10), "px_of_old_" + strconv.FormatInt(n%fillFleet, 10)
}

func (h History) renew(tx *ledger.Tx, n int64) error {
	id, proxy := filled(n)
	ids := []string{proxy}
	cmd, err := command.Parse(fact.KindRenewal, renewal(id, proxy), command.Rules{Environment: upstream.Environment(h.Binding.Environment)})
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
	planned := cmd.Operations(h.Binding, ids, false)
	ref := fact.Ref{CommandID: id, OperationID: planned[0].OperationID}
	return tx.Append(
		fact.CommandAccepted{Ref: fact.Ref{CommandID: id}, Kind: fact.KindRenewal, ContentHash: hash, Content: content, DurationDays: cmd.DurationDays, Operations: planned},
		fact.OperationSending{
			Ref: ref, Attempt: 1, Key: planned[0].Key, Body: string(body), SentAt: tx.Now(), AppID: h.AppID,
			Observed: map[string]time.Time{proxy: tx.Now().Add(24 * time.Hour)},
		},
		fact.RenewalSettled{
			Ref: ref, Status: upstream.RenewalCompleted, Attempt: 1,
			Lines: fact.Lines{ChargedCents: cents, Items: []fact.Line{{ProxyID: proxy, State: fact.LineSucceeded, ChargedCents: cents}}},
		})
}
