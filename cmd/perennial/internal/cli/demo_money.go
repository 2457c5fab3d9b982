// The cost of each step of the demonstration, and the final comparison of the books.

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs/inspect"
	"perennial/upstream/sandbox"
)

type demoCost struct {
	charged, refunded int64
	attempts          int64
}

func (c *demoCost) add(x demoCost) {
	c.charged, c.refunded, c.attempts = c.charged+x.charged, c.refunded+x.refunded, c.attempts+x.attempts
}

func costOf(s inspect.CommandStatus) (c demoCost) {
	for _, o := range s.Operations {
		c.add(demoCost{o.ChargedCents, o.RefundedCents, o.Attempts})
	}
	return c
}

// opening prints the wallet before the first step, and the heading of the steps.
func (d *demo) opening(ctx context.Context, r *remote) error {
	if err := d.events.wait(ctx, "ledger.opened", ""); err != nil {
		return fmt.Errorf("the account was not bound: %w", err)
	}
	b, err := ask(ctx, r, verbs.Balance, struct{}{})
	if err != nil {
		return err
	}
	fmt.Fprintf(d.app.stdout, "\nWALLET  %s at the beginning\n\n%-20s %-10s %12s %12s %9s\n", money(b.FundingCents, b.Currency), "STEP", "STATE", "CHARGED", "REFUNDED", "ATTEMPTS")
	return nil
}

// line prints a step with its state and cost.
func (d *demo) line(what, state string, c demoCost, title string) {
	const currency = "USD" // currency of the embedded sandbox
	line := fmt.Sprintf("  %-18s %-10s %12s %12s %9s  %s", what, state, money(c.charged, currency), money(c.refunded, currency), attemptText(c.attempts), title)
	fmt.Fprintln(d.app.stdout, strings.TrimRight(line, " "))
}

// ended waits until a step's command has ended, and prints its state and cost.
func (d *demo) ended(ctx context.Context, r *remote, s demoStep) error {
	status, err := awaitEnd(ctx, r, s.id)
	if err != nil {
		return fmt.Errorf("%s: %w", s.id, err)
	}
	if status.State != s.want {
		return fmt.Errorf("%s ended as %s and should be %s: %s", s.id, status.State, s.want, status.Reason)
	}
	c := costOf(status)
	d.cost.add(c)
	d.line(s.id, status.State, c, s.title)
	return nil
}

// sweep runs the schedule until no proxy is left to renew. It may take several runs, because a
// schedule learns an unknown price by renewing one proxy first.
func (d *demo) sweep(ctx context.Context, r *remote) error {
	var cost demoCost
	renewed, commands := 0, 0
	for {
		plan, err := ask(ctx, r, verbs.Sweep, verbs.SweepRequest{Schedule: demoSchedule().Name, By: "demo", Reason: "to show a sweep"})
		if err != nil {
			return err
		}
		if len(plan.Included) == 0 {
			break
		}
		for _, raw := range plan.Commands {
			c, err := d.swept(ctx, r, raw)
			if err != nil {
				return err
			}
			cost.add(c)
		}
		renewed, commands = renewed+len(plan.Included), commands+len(plan.Commands)
	}
	if renewed == 0 {
		return errors.New("the sweep found nothing to renew")
	}
	d.cost.add(cost)
	d.line("sweep "+demoSchedule().Name, "completed", cost, fmt.Sprintf("renewed the %d that expire within 72 hours, by %d commands", renewed, commands))
	d.line("sum", "", demoCost{d.cost.charged, d.cost.refunded, 0}, "")
	return nil
}

// swept waits until one command of a schedule's run has ended, and returns its cost.
func (d *demo) swept(ctx context.Context, r *remote, raw []byte) (demoCost, error) {
	var command struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(raw, &command); err != nil {
		return demoCost{}, err
	}
	status, err := awaitEnd(ctx, r, command.ID)
	if err == nil && status.State != "completed" {
		err = fmt.Errorf("it ended as %s: %s", status.State, status.Reason)
	}
	if err != nil {
		return demoCost{}, fmt.Errorf("the sweep's command %s: %w", command.ID, err)
	}
	return costOf(status), nil
}

// books checks that the ledger, the provider's wallet and the sandbox's list of charges
// agree to the cent.
func (d *demo) books(ctx context.Context) error {
	a := d.host.Accounts[0]
	b, err := a.Ledger().Money.Balance(ctx, a.Name)
	if err != nil {
		return err
	}
	if _, err := a.Ledger().Verify(ctx); err != nil {
		return err
	}
	wallet, err := a.Client.Wallet(ctx)
	if err != nil {
		return err
	}
	charges, err := sandbox.ReadCharges(filepath.Join(d.host.Config.DataDir, "sandbox.charges.jsonl"))
	if err != nil {
		return err
	}
	var charged, refunded int64
	keys := map[string]bool{}
	for _, c := range charges {
		if c.Kind == "refund" {
			refunded += c.AmountCents
		} else {
			charged += c.AmountCents
			keys[c.IdempotencyKey] = true
		}
	}
	opening := b.FundingCents
	referee := opening - charged + refunded
	fmt.Fprintf(d.app.stdout, "\n%-31s %12s %12s %12s\n", "BOOKS", "CHARGED", "REFUNDED", "WALLET")
	fmt.Fprintf(d.app.stdout, "  %-29s %12s %12s %12s  (chain and projections verified, %d facts)\n", "ledger", money(b.ChargedCents, b.Currency), money(b.RefundedCents, b.Currency), money(b.WalletCents, b.Currency), b.Head.Seq)
	fmt.Fprintf(d.app.stdout, "  %-29s %12s %12s %12s\n", "provider", "", "", money(wallet.BalanceCents, wallet.Currency))
	fmt.Fprintf(d.app.stdout, "  %-29s %12s %12s %12s  (the sandbox's own list of charges, %d keys)\n", "referee", money(charged, b.Currency), money(refunded, b.Currency), money(referee, b.Currency), len(keys))
	if d.cost.charged != charged || d.cost.refunded != refunded {
		return errors.New("the steps do not add up to what was charged")
	}
	if b.ChargedCents != charged || b.RefundedCents != refunded || b.WalletCents != wallet.BalanceCents || referee != wallet.BalanceCents {
		return errors.New("the books do not agree")
	}
	fmt.Fprintf(d.app.stdout, "  they agree to the cent: %s - %s + %s = %s\n", money(opening, b.Currency), money(charged, b.Currency), money(refunded, b.Currency), money(referee, b.Currency))
	return nil
}
