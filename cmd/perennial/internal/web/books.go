// The state of an account's books, for the overview and the money page.

package web

import (
	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs"
	"perennial/ledger"
	"perennial/ledger/fact"
)

// booksView compares the ledger balance with the provider's wallet.
type booksView struct {
	Balance  ledger.Balance
	Compared *jobs.LastReconciliation // nil: the runner gives none
	Changed  bool                     // money was booked since the last reconciliation
	Differed bool                     // the last reconciliation found a difference, also in an earlier run
	Agreed   bool                     // the last reconciliation found no difference
}

// booksOf combines a balance with the runner's answers.
func booksOf(b ledger.Balance, glance Made[verbs.Summary], shown Made[verbs.AccountView]) booksView {
	v := booksView{Balance: b}
	if glance.problem() == "" {
		books := glance.Value.Books
		v.Changed, v.Differed, v.Agreed = books.ChangedSince, books.Agree != nil && !*books.Agree, books.Agree != nil && *books.Agree
	}
	if shown.problem() == "" {
		v.Compared = &shown.Value.Reconciled
	}
	return v
}

// BooksLevel returns the colour of the books. It is green only if nothing was booked since
// a reconciliation that agreed.
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

// verdictBefore returns the verdict of the last reconciliation of an earlier run.
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

// BooksVerdict says whether the books agree. A difference is unconfirmed if an open review
// or pending operation can explain it, otherwise unexplained.
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
		return amount(*c.DifferenceCents) + " unexplained"
	case !*c.OK:
		return "They differ"
	case b.Changed:
		return "Changed since the check"
	case c.ProviderCents != nil && *c.ProviderCents != b.Balance.WalletCents:
		return amount(b.Balance.WalletCents-*c.ProviderCents) + " unconfirmed"
	}
	return "They agree"
}
