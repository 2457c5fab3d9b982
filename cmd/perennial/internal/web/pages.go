// The other pages of an account: reviews, schedules, proxies, money, and what people
// decided.

package web

import (
	"context"
	"slices"

	"perennial/ledger"
	"perennial/schedules"
)

type reviewsView struct {
	Rows     []ledger.Review
	Currency string
	SumCents int64
}

func (s *Server) reviews(q accountRequest) {
	ctx, l := q.Context(), q.account.Ledger()
	rows, err := l.Reviews(ctx)
	if err != nil {
		s.broken(q, err)
		return
	}
	v := reviewsView{Rows: rows}
	v.Currency, _ = l.Currency(ctx) // "" before the ledger is opened
	for _, r := range rows {
		v.SumCents += r.AtStakeCents
	}
	s.show(q, "reviews", "Waits for a person", v)
}

type schedulesView struct {
	Rows     []schedules.Status
	NoRunner string
}

func (s *Server) schedules(q accountRequest) {
	var v schedulesView
	ctx, cancel := context.WithTimeout(q.Context(), askWithin)
	defer cancel()
	if err := q.account.Ask(ctx, "sweeps", struct{}{}, &v.Rows); err != nil {
		v.NoRunner = err.Error()
	}
	s.show(q, "schedules", "Schedules", v)
}

// moneyView is the book.
type moneyView struct {
	ledger.Balance
	ByDay    bool
	Totals   []ledger.BookTotal
	Postings []ledger.Posting
}

// postingsShown is how many lines of the book a page shows.
const postingsShown = 100

func (s *Server) money(q accountRequest) {
	ctx, l := q.Context(), q.account.Ledger()
	var v moneyView
	p, err := l.Position(ctx, q.account.AccountName())
	if err != nil {
		s.broken(q, err)
		return
	}
	v.Balance = p.WithUnbooked()
	if v.ByDay = q.URL.Query().Has("days"); v.ByDay { // on request: it sums every entry
		if v.Totals, err = l.TotalsBy(ctx, "day", 31); err != nil {
			s.broken(q, err)
			return
		}
	}
	if v.Postings, err = l.Postings(ctx, max(v.Head.Seq-2000, 0), 100_000); err != nil {
		s.broken(q, err)
		return
	}
	slices.Reverse(v.Postings)
	v.Postings = v.Postings[:min(len(v.Postings), postingsShown)]
	s.show(q, "money", "Money", v)
}

// decidedRows is how many of the newest rows the page of decisions reads: a row does not
// say by an index that it is a person's.
const decidedRows = 20_000

// decisions is what people decided in the last 90 days, as far as the newest rows go.
func (s *Server) decisions(q accountRequest) {
	ctx, l := q.Context(), q.account.Ledger()
	from := s.Clock().AddDate(0, 0, -90)
	seq, _, err := l.Head(ctx)
	if err == nil && seq > decidedRows {
		var row ledger.Row
		if row, err = l.Row(ctx, seq-decidedRows); err == nil && row.Instant().After(from) {
			from = row.Instant()
		}
	}
	var all []ledger.Decision
	if err == nil {
		err = l.Decisions(ctx, ledger.Period{From: from}, func(d ledger.Decision) error {
			all = append(all, d)
			return nil
		})
	}
	if err != nil {
		s.broken(q, err)
		return
	}
	slices.Reverse(all)
	s.show(q, "log", "What people decided", all[:min(len(all), 500)])
}
