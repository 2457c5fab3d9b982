package web

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/cmd/perennial/internal/webhook"
	"perennial/jobs"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/schedules"
)

// spentOver is the period over which the runway's spending is averaged.
const spentOver = 7 * 24 * time.Hour

type accountCard struct {
	booksView

	Name          string
	Role          string
	Problems      []Check
	Paused        string        // what is paused and why; "" if nothing is paused
	NothingSent   bool          // renewals are paused
	Runway        time.Duration // runway at the recent rate of spending; 0 if unknown or if nothing was spent
	Forecast      Made[schedules.Forecast]
	Week          fact.Sum // forecast cost of the first seven days
	PausedWeek    pausedShares
	PausedMonth   pausedShares
	OverBudget    int64 // cents of the forecast that exceed the daily budgets
	Lasts         int   // number of forecast days that the wallet pays for; -1 means all
	Expiries      Made[[]bucket]
	Uncovered     Made[uncovered]
	Needs         *verbs.Needs // nil if the runner has not answered
	Asked         bool         // the runner has been asked and has not answered yet
	ConfigChanged string       // says that the configuration file has changed; "" if it has not
	List          attentionView
	Schedules     []schedules.Status
	NoRunner      string // the reason if schedules cannot be shown
	Provider      *jobs.ProviderRecent
	Broken        string // why the ledger cannot be read
}

// NeedsLevel returns the color in which the card shows the needs.
func (c accountCard) NeedsLevel() string {
	switch {
	case c.Needs == nil:
		return ""
	case c.Needs.Reviews > 0:
		return "bad"
	case c.Needs.Total > 0:
		return "warn"
	}
	return "ok"
}

// Expired returns how many listed proxies have expired.
func (c accountCard) Expired() int64 { return c.soon(0, 1) }

// Soon returns how many proxies expire within three days, and Month within thirty.
func (c accountCard) Soon() int64  { return c.soon(1, 3) }
func (c accountCard) Month() int64 { return c.soon(1, 6) }

func (c accountCard) soon(from, to int) (n int64) {
	for i, b := range c.Expiries.Value {
		if i >= from && i < to {
			n += b.Count
		}
	}
	return n
}

// ExpiringLevel returns the color in which the card shows the expiries. It returns "", for grey,
// if the counts are unknown.
func (c accountCard) ExpiringLevel() string {
	switch {
	case !c.Expiries.Known() || !c.Uncovered.Known():
		return ""
	case c.Uncovered.Value.Count > 0 && len(c.Schedules) == 0 && c.NoRunner == "":
		return "bad"
	case c.Uncovered.Value.Count > 0 || c.Expired() > 0:
		return "warn"
	}
	return "ok"
}

// CostLevel returns the color in which the card shows the forecast. It returns "", for grey, if
// there is no forecast or no schedule, or if the result depends on an unknown price.
func (c accountCard) CostLevel() string {
	f := c.Forecast.Value
	switch {
	case !c.Forecast.Known() || f.WalletCents == nil || len(f.Schedules) == 0:
		return ""
	case f.RunsOutOn != "" && c.Lasts < 3:
		return "bad"
	case f.RunsOutOn != "":
		return "warn"
	case f.Unpriced > 0:
		return ""
	}
	return "ok"
}

// rank orders accounts by their problems. A worse state has a higher rank.
func (c accountCard) rank() (n int) {
	for _, level := range []string{c.NeedsLevel(), c.ExpiringLevel(), c.CostLevel(), c.BooksLevel()} {
		n += map[string]int{"bad": 1000, "warn": 10, "": 1}[level]
	}
	return n + 10_000*min(len(c.Problems)+len(c.Broken), 1)
}

// overviewPages serves the overview, and the lists and schedules to which the overview links.
type overviewPages struct{ *frame }

// overview shows all accounts that a person may see. If there is only one account, it shows
// the account's details.
func (s *overviewPages) overview(w http.ResponseWriter, r *http.Request, x session) {
	v := s.view(x, "Overview", "overview")
	s.showCards(w, r, x, v, v.Accounts)
}

func (s *overviewPages) accountOverview(q accountRequest) (page, error) {
	v := s.view(q.session, "Overview", "overview")
	v.Account = q.account.AccountName()
	s.showCards(q.to, q.Request, q.session, v, []string{v.Account})
	return page{}, nil
}

func (s *overviewPages) showCards(w http.ResponseWriter, r *http.Request, x session, v view, names []string) {
	cards := make([]accountCard, 0, len(names))
	for _, name := range names { // start all requests first, so that the runners answer in parallel
		a := s.account(x.Person, name)
		begin(s.insight.figures, a, verbs.AtAGlance, verbs.SummaryRequest{NeedsOnly: true}, 0)
		begin(s.insight.figures, a, verbs.Sweeps, struct{}{}, 0)
		begin(s.insight.figures, a, verbs.Show, struct{}{}, 0)
	}
	for _, name := range names {
		a := s.account(x.Person, name)
		card := accountCard{Name: name, Role: a.Role()}
		if err := s.fill(r.Context(), a, &card); err != nil {
			card.Broken = err.Error()
		}
		v.Pending = v.Pending || card.Asked || card.Forecast.Pending() || card.Expiries.Pending() || card.Uncovered.Pending()
		cards = append(cards, card)
	}
	slices.SortStableFunc(cards, func(a, b accountCard) int { return cmp.Compare(b.rank(), a.rank()) })
	page := "accounts"
	if v.Data = cards; len(cards) == 1 {
		page, v.Data = "overview", cards[0]
	}
	s.page(w, r, page, http.StatusOK, v)
}

func (s *overviewPages) fill(ctx context.Context, a Account, card *accountCard) error {
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
	p, err := l.Money.Position(ctx, card.Name)
	keep(err)
	card.Balance = p.WithUnbooked()
	spent, err := l.Metrics.NetSpentSince(ctx, now.Add(-spentOver))
	keep(err)
	if opened, err := l.Money.OpenedAt(ctx); err == nil && spent > 0 {
		if over := min(spentOver, now.Sub(opened)); over >= 24*time.Hour { // a shorter period does not predict the next day
			card.Runway = max(time.Duration(float64(over)*float64(card.Balance.WalletCents)/float64(spent)), 1) // 0 means unknown
		}
	}
	s.fillFleet(ctx, a, card)
	n, err := s.insight.needs(ctx, a)
	keep(err)
	card.Paused, card.NothingSent = pausesText(n.Pauses, now), sendsNoRenewals(n.Pauses)
	if card.Paused != "" {
		card.Problems = slices.DeleteFunc(card.Problems, func(c Check) bool { return c.Name == "paused" })
	}
	card.Schedules, card.NoRunner, card.Asked = n.Schedules, n.NoRunner, n.Asked
	card.booksView, err = s.insight.books(ctx, a, p.WithUnbooked())
	keep(err)
	glance, shown := s.insight.glance(ctx, a), askNow(ctx, s.insight.figures, a, verbs.Show, struct{}{})
	if n.Known {
		card.Needs, card.ConfigChanged = &n.Needs, glance.Value.ConfigChanged
	}
	card.List, err = s.insight.attentionList(ctx, a)
	keep(err)
	if f := card.Forecast.Value; card.LastRead == nil && card.Forecast.Known() && f.WalletCents != nil {
		card.LastRead = &walletRead{f.At, *f.WalletCents}
	}
	if shown.problem() == "" && shown.Value.Provider.WindowSeconds > 0 { // an older runner does not send this value
		card.Provider = &shown.Value.Provider
	}
	return errors.Join(errs...)
}

func (s *overviewPages) fillFleet(ctx context.Context, a Account, card *accountCard) {
	card.Expiries, card.Uncovered, card.Forecast = s.insight.expiries(ctx, a), s.insight.uncovered(ctx, a), s.insight.forecast(ctx, a)
	card.Lasts = -1
	for n, d := range card.Forecast.Value.Days {
		if n < 7 {
			card.Week = card.Week.Join(d.Charge())
			card.PausedWeek = card.PausedWeek.addDay(d)
		}
		card.PausedMonth = card.PausedMonth.addDay(d)
		card.OverBudget += d.OverBudgetCents
		if d.Day == card.Forecast.Value.RunsOutOn {
			card.Lasts = n
		}
	}
}

// Runner is a live runner, as its own heartbeat describes it.
type Runner struct {
	Name      string
	Version   string
	StartedAt time.Time
	SaidAt    time.Time
	Stopping  bool // draining, so it takes no accounts
	This      bool // the runner that serves this page
	Accounts  []RunnerAccount
}

// RunnerAccount is an account on a runner.
type RunnerAccount struct {
	Account string
	Role    string // active or standby
	Head    int64  // last row of the runner's ledger
	Lag     uint64 // rows of the events stream that a standby has not applied yet
	Lease   bool
	Ready   bool // the runner leads the account and works, or is a standby that could lead it immediately
	Borrows bool // not a runner but a CLI command, which asks for the account or has borrowed it

	Settings string // hash of the account's settings and schedules
}

type runnersView struct {
	Rows    []Runner
	Paused  map[string]string // what is paused and why, by account; "" if nothing is paused
	Unknown string            // the reason if other runners cannot be shown
}

func (s *overviewPages) runners(w http.ResponseWriter, r *http.Request, x session) {
	ctx, cancel := context.WithTimeout(r.Context(), askWithin)
	defer cancel()
	var data runnersView
	all, err := s.Runners(ctx)
	if err != nil {
		data.Unknown = err.Error()
	}
	for _, one := range all {
		mine := make([]RunnerAccount, 0, len(one.Accounts))
		for _, a := range one.Accounts {
			if x.MaySee(a.Account) {
				mine = append(mine, a)
			}
		}
		if one.Accounts = mine; len(mine) > 0 {
			data.Rows = append(data.Rows, one)
		}
	}
	data.Paused = map[string]string{}
	for _, a := range s.Accounts {
		if n, err := s.insight.needs(r.Context(), a); err == nil && x.MaySee(a.AccountName()) {
			data.Paused[a.AccountName()] = pausesText(n.Pauses, s.Clock())
		}
	}
	v := s.view(x, "Runners", "runners")
	v.Data = data
	code := http.StatusOK
	if data.Unknown != "" {
		code = http.StatusServiceUnavailable
	}
	s.page(w, r, "runners", code, v)
}

// Webhooks gives access to an account's webhooks.
type Webhooks interface {
	// List returns the configured webhooks, and removed webhooks that still have a position.
	List(ctx context.Context) ([]webhook.Status, error)
	// Test sends a signed test event and describes the reply. It returns an error if the event
	// was not accepted.
	Test(ctx context.Context, name string) (said string, err error)
	// Replay delivers events again, from a sequence or from the first event since a time. The
	// replay is recorded under a person's name.
	Replay(ctx context.Context, name string, seq uint64, since time.Time, by, reason string) (said string, err error)
}

func (s *overviewPages) webhooks(q accountRequest) (page, error) {
	ctx, cancel := context.WithTimeout(q.Context(), askWithin)
	defer cancel()
	all, err := q.account.Webhooks().List(ctx)
	if err != nil {
		return page{}, &pageError{http.StatusServiceUnavailable, "The positions of the webhooks cannot be read from NATS now: " + err.Error(), err}
	}
	return page{name: "webhooks", title: "Webhooks", data: all}, nil
}

func testWebhook(form func(string) string) (*request, error) {
	name := form("id")
	return &request{words: []string{"webhooks", "test", name}, do: func(ctx context.Context, a Account, _ signature) (string, error) {
		return a.Webhooks().Test(ctx, name)
	}}, nil
}

// replayWebhook parses the start of a replay: a sequence, a day or a time.
func replayWebhook(form func(string) string) (*request, error) {
	name, from := form("id"), form("from")
	var since time.Time
	seq, err := strconv.ParseUint(from, 10, 64)
	where := []string{"--from-seq", from}
	if err != nil || seq == 0 {
		if since, err = instantOf(from); err != nil || since.IsZero() {
			return nil, errors.New("say from where on: the sequence of an event, such as 42, or a day, such as 2026-11-21")
		}
		seq, where = 0, []string{"--from-time", strings.TrimSpace(from)}
	}
	return &request{words: append([]string{"webhooks", "replay", name}, where...), do: func(ctx context.Context, a Account, by signature) (string, error) {
		return a.Webhooks().Replay(ctx, name, seq, since, by.name, by.reason)
	}}, nil
}
