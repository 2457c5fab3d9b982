// The first page: of every account, whether something will expire, what needs a person,
// and whether the money is right.

package web

import (
	"context"
	"errors"
	"net/http"
	"time"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/schedules"
)

// spentOver is over how long spending is measured for the runway.
const spentOver = 7 * 24 * time.Hour

// accountCard is an account on the first page.
type accountCard struct {
	Name       string
	Role       string
	Problems   []Check
	Paused     []ledger.Pause
	Balance    ledger.Balance
	Runway     time.Duration // as spending was measured; 0: nothing was spent
	Forecast   Made[schedules.Forecast]
	Week       fact.Sum // of the forecast, what the first seven days charge
	Lasts      int      // of the forecast, the days before the one that the wallet does not pay for; -1: it pays for all
	Expiries   Made[[]bucket]
	Uncovered  Made[uncovered]
	Reviews    int64
	Needs      *verbs.Needs // nil: its runner does not say, and Reviews is what the ledger knows
	States     []stateCount
	Oldest     *time.Time // the first attempt that may have executed, of what is sent again
	OldestID   string     // of what is under way
	OldestAt   time.Time
	Schedules  []schedules.Status
	NoRunner   string // why schedules cannot be shown
	Provider   *jobs.ProviderRecent
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
	s.showCards(w, r, x, v, v.Accounts)
}

func (s *Server) accountOverview(q accountRequest) {
	v := s.view(q.session, "Overview", "overview")
	v.Account = q.account.AccountName()
	s.showCards(q.to, q.Request, q.session, v, []string{v.Account})
}

func (s *Server) showCards(w http.ResponseWriter, r *http.Request, x session, v view, names []string) {
	cards := make([]accountCard, 0, len(names))
	for _, name := range names {
		a := s.account(x.Person, name)
		card := accountCard{Name: name, Role: a.Role()}
		if err := s.fill(r.Context(), a, &card); err != nil {
			card.Broken = err.Error()
		}
		v.Pending = v.Pending || card.Forecast.Pending() || card.Expiries.Pending() || card.Uncovered.Pending()
		cards = append(cards, card)
	}
	v.Data = cards
	s.page(w, r, "overview", http.StatusOK, v)
}

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
	card.OldestID, card.OldestAt, err = l.OldestLive(ctx)
	keep(err)
	counts, err := l.StateCounts(ctx)
	keep(err)
	for _, state := range underWay {
		if n := counts[state]; n > 0 {
			card.States = append(card.States, stateCount{state, n})
		}
	}
	spent, err := l.NetSpentSince(ctx, now.Add(-spentOver))
	keep(err)
	if opened, err := l.OpenedAt(ctx); err == nil && spent > 0 {
		over := max(min(spentOver, now.Sub(opened)), 24*time.Hour)
		card.Runway = time.Duration(float64(over) * float64(card.Balance.WalletCents) / float64(spent))
	}
	s.fillFleet(ctx, a, card)
	card.Schedules, card.NoRunner = s.sweeps(ctx, a)
	if made := s.glance(ctx, a); made.problem() == "" {
		card.Needs = &made.Value.Needs
	}
	if made := askNow(ctx, s, a, verbs.Show); made.problem() == "" {
		shown := made.Value
		if shown.Provider.WindowSeconds > 0 { // 0: an older runner, which does not say
			card.Provider = &shown.Provider
		}
		card.Reconciled = ReconciledText(shown.Reconciled, card.Balance.Currency)
		card.Differs = shown.Reconciled.Findings > 0 && !shown.Reconciled.Agrees()
	}
	return errors.Join(errs...)
}

// fillFleet adds the figures of all proxies.
func (s *Server) fillFleet(ctx context.Context, a Account, card *accountCard) {
	card.Expiries, card.Uncovered, card.Forecast = s.expiries(ctx, a), s.uncovered(ctx, a), s.forecast(ctx, a)
	card.Lasts = -1
	for n, d := range card.Forecast.Value.Days {
		if n < 7 {
			card.Week = card.Week.Join(d.Charge())
		}
		if d.Day == card.Forecast.Value.RunsOutOn {
			card.Lasts = n
		}
	}
}
