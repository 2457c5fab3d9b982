// The books of an account in a word, for the overview and the page of the money.

package web

import (
	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs"
	"perennial/ledger"
	"perennial/ledger/fact"
)

// booksView is the ledger's wallet beside the provider's.
type booksView struct {
	Balance  ledger.Balance
	Compared *jobs.LastReconciliation // nil: its runner does not say
	Changed  bool                     // money was booked since they were compared
	Differed bool                     // they did when they were compared last, in an earlier run too
	Agreed   bool                     // they did then
}

// booksOf is a balance with what the runner says of it.
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

// BooksLevel is the colour of the books: green only while what was compared is what is booked.
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

// verdictBefore is that of the last comparison, which was before this run.
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

// BooksVerdict says whether they agree. A difference is unexplained where nothing open can
// be its cause, and unconfirmed where what is in review or pending can.
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
