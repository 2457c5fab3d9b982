// The first page: of every account, whether something will expire, what needs a person,
// and whether the money is right.

package web

import (
	"context"
	"errors"
	"net/http"
	"time"

	"perennial/jobs"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/schedules"
)

// spentOver is over how long spending is measured for the runway.
const spentOver = 7 * 24 * time.Hour

// span is proxies that expire within a time.
type span struct {
	Within string
	Count  int64
}

var spans = []struct {
	name  string
	until time.Duration
}{{"expired", 0}, {"1 hour", time.Hour}, {"1 day", 24 * time.Hour}, {"3 days", 3 * 24 * time.Hour}, {"7 days", 7 * 24 * time.Hour}, {"30 days", 30 * 24 * time.Hour}}

// accountCard is an account on the first page.
type accountCard struct {
	Name       string
	Role       string
	Problems   []Check
	Paused     []ledger.Pause
	Balance    ledger.Balance
	Runway     time.Duration // 0: nothing was spent
	Spans      []span
	Reviews    int64
	States     []stateCount
	Oldest     *time.Time // the first attempt that may have executed, of what is sent again
	Schedules  []schedules.Status
	NoRunner   string // why schedules cannot be shown
	Reconciled string // the last comparison with the provider, as its runner says
	Differs    bool
	Broken     string // why the ledger cannot be read
}

type stateCount struct {
	State fact.State
	Count int64
}

// underWay are the states that the first page counts.
var underWay = []fact.State{fact.StateAccepted, fact.StateSending, fact.StateWaiting, fact.StateOpen, fact.StateHeld, fact.StateReview}

func (s *Server) overview(w http.ResponseWriter, r *http.Request, x session) {
	v := s.view(x, "Overview", "overview")
	cards := make([]accountCard, 0, len(v.Accounts))
	for _, name := range v.Accounts {
		a := s.account(x.Person, name)
		card := accountCard{Name: name, Role: a.Role()}
		if err := s.fill(r.Context(), a, &card); err != nil {
			card.Broken = err.Error()
		}
		cards = append(cards, card)
	}
	v.Data = cards
	s.page(w, r, "overview", http.StatusOK, v)
}

// askWithin bounds what a page waits for of a runner.
const askWithin = 3 * time.Second

func (s *Server) fill(ctx context.Context, a Account, card *accountCard) (err error) {
	for _, c := range a.Health() {
		if !c.OK {
			card.Problems = append(card.Problems, c)
		}
	}
	l, now := a.Ledger(), s.Clock()
	var errs []error
	keep := func(err error) {
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			errs = append(errs, err)
		}
	}
	card.Balance, err = l.Balance(ctx, card.Name)
	keep(err)
	card.Paused, err = l.Pauses(ctx)
	keep(err)
	card.Reviews, err = l.CountReviews(ctx)
	keep(err)
	card.Oldest, err = l.OldestAmbiguous(ctx)
	keep(err)
	counts, err := l.StateCounts(ctx)
	keep(err)
	for _, state := range underWay {
		if n := counts[state]; n > 0 {
			card.States = append(card.States, stateCount{state, n})
		}
	}
	before := make([]time.Time, len(spans))
	for i, one := range spans {
		before[i] = now.Add(one.until)
	}
	expiring, err := l.CountExpiring(ctx, before)
	keep(err)
	for i, n := range expiring {
		card.Spans = append(card.Spans, span{spans[i].name, n})
	}
	spent, err := l.NetSpentSince(ctx, now.Add(-spentOver))
	keep(err)
	if opened, err := l.OpenedAt(ctx); err == nil && spent > 0 {
		over := max(min(spentOver, now.Sub(opened)), 24*time.Hour)
		card.Runway = time.Duration(float64(over) * float64(card.Balance.WalletCents) / float64(spent))
	}
	limited, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	if err := a.Ask(limited, "sweeps", struct{}{}, &card.Schedules); err != nil {
		card.NoRunner = err.Error()
		return errors.Join(errs...)
	}
	var shown struct {
		Reconciled jobs.LastReconciliation `json:"reconciled"`
	}
	if err := a.Ask(limited, "show", struct{}{}, &shown); err == nil {
		card.Reconciled = ReconciledText(shown.Reconciled, card.Balance.Currency)
		card.Differs = shown.Reconciled.Findings > 0 && !shown.Reconciled.OK
	}
	return errors.Join(errs...)
}
