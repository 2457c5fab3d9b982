package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/upstream"
)

// turnOfRenewals is how many older renewals one pass checks. The check reads only the
// ledger.
const turnOfRenewals = 500

func (p *Pass) someRenewals(ctx context.Context) error {
	ids, err := p.Ledger.Money.RenewalsAfter(ctx, p.renewals, turnOfRenewals)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := p.renewal(ctx, id); err != nil {
			return err
		}
		p.renewals = id
	}
	if len(ids) < turnOfRenewals {
		p.renewals = ""
	}
	return nil
}

// Compares a renewal's charge and refund in the operation, in its transfers and in its lines.
func (p *Pass) renewal(ctx context.Context, id string) error {
	if p.added[id] {
		return nil
	}
	p.added[id] = true
	sums, err := p.Ledger.Money.RenewalSums(ctx, id)
	if err != nil {
		return fmt.Errorf("renewal %s: %w", id, err)
	}
	p.Renewals++
	if slices.ContainsFunc(p.Findings, func(f Finding) bool { return f.Kind == decide.FindingSums && f.OperationID == id }) {
		return nil
	}
	if d := sums.Differ(); d != 0 {
		p.find(Finding{Kind: decide.FindingSums, AmountCents: d, OperationID: id, Explanation: fmt.Sprintf(
			"charged and refunded are %s and %s in the operation, %s and %s in its transfers, %s and %s in its lines: run `perennial ledger verify`",
			p.Binding.Amount(sums.ChargedCents), p.Binding.Amount(sums.RefundedCents), p.Binding.Amount(sums.BookedChargedCents), p.Binding.Amount(sums.BookedRefundedCents),
			p.Binding.Amount(sums.LineChargedCents), p.Binding.Amount(sums.LineRefundedCents))})
	}
	return nil
}

// MovesWithin is how long the provider may take to show a renewed expiry, or a charge in
// the wallet.
const MovesWithin = 10 * time.Minute

// Checks that renewals moved the expiries by the paid days, once MovesWithin has passed. It makes
// no request if a later read in the ledger shows the moved expiry.
func (p *Pass) expiries(ctx context.Context) error {
	p.grant()
	now := p.Clock()
	for _, id := range slices.Sorted(maps.Keys(p.settledAt)) {
		settled := p.settledAt[id]
		if now.Sub(settled) < MovesWithin {
			continue
		}
		lines, err := p.Ledger.Operations.Lines(ctx, id)
		if err != nil {
			return err
		}
		done := true
		for _, l := range lines {
			if l.State != fact.LineSucceeded && l.State != fact.LineCharged { // LineCharged is the answer of an operator
				continue
			}
			p.Compared.Expiries++
			moved, err := p.moved(ctx, id, l, settled)
			if p.unreadable(err, "expiries") {
				return nil
			}
			if err != nil {
				return err
			}
			done = done && moved
		}
		if done {
			delete(p.settledAt, id)
		}
	}
	return nil
}

// Reports whether a line needs no further check: its expiry moved or is unknown, its charge was
// fully refunded, or the provider no longer knows the proxy. If the expiry did not move by the
// paid days, it adds a finding.
func (p *Pass) moved(ctx context.Context, operation string, l tables.RenewalLine, settled time.Time) (bool, error) {
	seen, err := p.Ledger.Fleet.Proxy(ctx, l.ProxyID)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return false, err
	}
	before := l.ObservedExpiresAt
	if before == nil || l.RefundedCents > 0 && l.RefundedCents >= l.ChargedCents {
		return true, nil // no expiry was read before the renewal, or the charge was refunded
	}
	key := operation + " " + l.ProxyID
	from := *before // the API does not say when the paid days begin
	if !settled.IsZero() && settled.Before(from) {
		from = settled
	}
	least := from.Add(time.Duration(l.DurationDays)*24*time.Hour - fact.ExpiryTolerance)
	if seen.SeenAt.After(settled) && seen.ExpiresAt != nil && !seen.ExpiresAt.Before(least) {
		return true, nil
	}
	if !p.May() {
		p.still(key, "the expiry of "+l.ProxyID)
		return false, nil
	}
	proxy, err := Fetch(ctx, p.Reconciler, func(ctx context.Context) (upstream.Proxy, error) { return p.Statements.Proxy(ctx, l.ProxyID) })
	if err != nil {
		return p.notRead(key, operation, l.ProxyID, err)
	}
	if proxy.ExpiresAt == nil || !proxy.ExpiresAt.Before(least) {
		return true, nil
	}
	f := Finding{Kind: decide.FindingNotMoved, AmountCents: l.ChargedCents - l.RefundedCents, OperationID: operation, ProxyID: l.ProxyID,
		Explanation: fmt.Sprintf("its renewal by %d days cost %s, it expired at %s before, and the provider says %s",
			l.DurationDays, p.Binding.Amount(l.ChargedCents-l.RefundedCents), Stamp(*before), Stamp(*proxy.ExpiresAt))}
	p.Known[key] = []Finding{f}
	p.find(f)
	return false, nil
}

// notRead handles a failed read of a renewed proxy. done reports whether the proxy need not be
// read again. The error, if any, ends the pass; a failure that concerns only this proxy is not
// returned.
func (p *Pass) notRead(key, operation, proxyID string, failed error) (done bool, err error) {
	switch {
	case errors.Is(failed, upstream.CodeProxyNotFound):
		p.notef("proxy %s, renewed by %s, is not known to the provider any more", proxyID, operation)
		return true, nil
	case aboutOne(failed):
		p.notef("proxy %s, renewed by %s, could not be read: %v", proxyID, operation, failed)
		p.still(key, "the expiry of "+proxyID)
		return false, nil
	}
	return false, fmt.Errorf("read proxy %s: %w", proxyID, failed)
}

// outsideRenewals finds expiries that moved without a renewal in this ledger, for example
// through a renewal at the provider's own site. The wallet would not show such a renewal if
// a top-up of the same amount was made. A recorded external movement explains the expiries
// seen before it.
func (p *Pass) outsideRenewals(ctx context.Context) error {
	moved, err := p.Ledger.Fleet.MovedOutside(ctx)
	if err != nil {
		return err
	}
	for _, m := range moved {
		days := int64((m.By + 12*time.Hour) / (24 * time.Hour))
		paid, err := p.Ledger.Fleet.PaidPerDay(ctx, m.ProxyID)
		if err != nil {
			return err
		}
		f := Finding{Kind: decide.FindingRenewed, ProxyID: m.ProxyID, Explanation: fmt.Sprintf(
			"its expiry moved from %s to %s, by %d days, and no renewal of this ledger explains it: if it was renewed at the provider's own site and that is not recorded yet, `perennial ledger record --kind external`", Stamp(m.Before), Stamp(m.Now), days)}
		if cost := paid.For(days); cost.Known() {
			f.AmountCents = -cost.Or(0)
			f.Explanation += "; at the price last paid it cost " + p.Binding.Amount(-f.AmountCents)
		}
		p.find(f)
	}
	return nil
}
