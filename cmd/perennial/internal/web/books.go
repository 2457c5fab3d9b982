// The state of an account's books, for the overview and the money page.

package web

import (
	"context"
	"time"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// booksView compares the ledger balance with the provider's wallet.
type booksView struct {
	Balance  tables.Balance
	Compared *comparison // nil if unknown; At is zero if the runner has made no reconciliation
	Changed  bool        // money was booked after the last reconciliation
	Differed bool        // the last reconciliation found a difference, perhaps before this process started
	Agreed   bool        // the last reconciliation found no difference
	Since    int64       // cents by which the ledger's wallet has changed since LastRead
	LastRead *walletRead // nil if the provider's wallet was never read
}

// walletRead is the last balance that was read from the provider's wallet.
type walletRead struct {
	At    time.Time
	Cents int64
}

// lastRead returns the provider's wallet balance from newest, the newest reconciliation
// since the runner started. If newest has no balance, lastRead takes the balance from the
// last reconciliation in the ledger that agreed. It returns nil if there is neither.
func lastRead(ctx context.Context, l *ledger.Ledger, newest *comparison) (*walletRead, error) {
	if newest != nil && newest.ProviderCents != nil {
		return &walletRead{newest.At, *newest.ProviderCents}, nil
	}
	seq, _, err := l.Head(ctx)
	if err != nil {
		return nil, err
	}
	last, _, err := l.Money.ReconciledAround(ctx, seq+1)
	if last == nil {
		return nil, err
	}
	return &walletRead{last.At, last.ProviderCents}, err
}

// comparison is a reconciliation of the books with the provider.
type comparison = jobs.LastReconciliation

// books combines a balance with the newest reconciliation.
func (s *insight) books(ctx context.Context, a Account, b tables.Balance) (booksView, error) {
	v := booksView{Balance: b}
	glance, shown := s.glance(ctx, a), askNow(ctx, s.figures, a, verbs.Show, struct{}{})
	v.Compared = s.compared(a, shown)
	var err error
	if v.LastRead, err = lastRead(ctx, a.Ledger(), v.Compared); err != nil {
		return v, err
	}
	var at time.Time
	if glance.problem() == "" {
		books := glance.Value.Books
		v.Differed, v.Agreed = books.Agree != nil && !*books.Agree, books.Agree != nil && *books.Agree
		if books.ComparedAt != nil {
			at = *books.ComparedAt
		}
	}
	if v.Compared != nil && v.Compared.At.After(at) {
		at = v.Compared.At
	}
	if at.IsZero() {
		return v, nil
	}
	last, _, err := a.Ledger().Money.PostingsBefore(ctx, "", 0, 1)
	if v.Changed = len(last) > 0 && last[0].Time.After(at); err != nil || !v.Changed || v.LastRead == nil {
		return v, err
	}
	v.Since, err = a.Ledger().Money.WalletChange(ctx, v.LastRead.At)
	return v, err
}

// compared returns the newer of two reconciliations: the runner's last one, and the last one
// that these pages requested. It returns nil if neither is known. The result's At is zero if
// the runner has made none.
func (s *insight) compared(a Account, shown Made[verbs.AccountView]) *comparison {
	var newest *comparison
	if shown.problem() == "" {
		newest = &shown.Value.Reconciled
	}
	asked, _ := peek[proof](s.figures, checkKey("reconcile", a.AccountName()))
	x := asked.Value.Reconciled
	if x == nil || newest != nil && !x.At.After(newest.At) {
		return newest
	}
	newest = &comparison{At: x.At, OK: x.OK, Quiet: x.Quiet, Findings: len(x.Findings), ProviderCents: &x.Wallet.ProviderCents}
	if x.OK != nil {
		newest.DifferenceCents = new(x.DifferenceCents())
	}
	return newest
}

// BooksLevel returns the color of the books. It is "ok" only if a reconciliation agreed and
// nothing was booked after it.
func (b booksView) BooksLevel() string {
	switch {
	case b.Balance.WalletCents < 0 || b.Compared != nil && (b.Compared.Findings > 0 && !b.Compared.Agrees() || b.Compared.At.IsZero() && b.Differed):
		return "bad"
	case b.Compared == nil || b.Compared.At.IsZero() || b.Compared.OK == nil || b.Changed:
		return ""
	case b.Balance.SuspenseCents > 0 || b.Balance.Unbooked != nil && b.Balance.Unbooked.Operations > 0:
		return "warn"
	}
	return "ok"
}

// verdictBefore returns the verdict of the last reconciliation before this process started.
func (b booksView) verdictBefore() string {
	switch {
	case b.Differed:
		return "They differed before this run"
	case b.Agreed && b.Changed:
		return "Changed since the check"
	case b.Agreed:
		return "They agreed before this run"
	}
	return "Not compared yet"
}

// BooksVerdict says whether the books agree. It calls a difference unconfirmed if an open
// review or a pending operation can explain it, and unexplained otherwise.
func (b booksView) BooksVerdict() string {
	c := b.Compared
	amount := func(cents int64) string { return fact.Amount(max(cents, -cents), b.Balance.Currency) }
	switch {
	case c == nil:
		return "unknown"
	case c.At.IsZero():
		return b.verdictBefore()
	case c.OK == nil:
		return "Not comparable now"
	case !*c.OK && c.DifferenceCents != nil && *c.DifferenceCents != 0:
		text := amount(*c.DifferenceCents) + " unexplained"
		if b.Changed {
			text += "; changed since the check"
		}
		return text
	case !*c.OK && b.Changed:
		return "They differed; changed since the check"
	case !*c.OK:
		return "They differ"
	case b.Changed:
		return "Changed since the check"
	case c.ProviderCents != nil && *c.ProviderCents != b.Balance.WalletCents:
		return amount(b.Balance.WalletCents-*c.ProviderCents) + " unconfirmed"
	}
	return "They agree"
}
