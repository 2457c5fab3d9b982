// The list of runners, with their accounts, roles and lag, and the webhooks page with test
// events and replays.

package web

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"perennial/cmd/perennial/internal/webhook"
)

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

// runnersView lists the runners of the visible accounts.
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

func testWebhook(form func(string) string) (changeFunc, []string, error) {
	name := form("id")
	return func(ctx context.Context, a Account, _ signature) (string, error) {
		return a.Webhooks().Test(ctx, name)
	}, []string{"webhooks", "test", name}, nil
}

// replayWebhook parses the start of a replay: a sequence, a day or a time.
func replayWebhook(form func(string) string) (changeFunc, []string, error) {
	name, from := form("id"), form("from")
	var since time.Time
	seq, err := strconv.ParseUint(from, 10, 64)
	where := []string{"--from-seq", from}
	if err != nil || seq == 0 {
		if since, err = instantOf(from); err != nil || since.IsZero() {
			return nil, nil, errors.New("say from where on: the sequence of an event, such as 42, or a day, such as 2026-11-21")
		}
		seq, where = 0, []string{"--from-time", strings.TrimSpace(from)}
	}
	return func(ctx context.Context, a Account, by signature) (string, error) {
		return a.Webhooks().Replay(ctx, name, seq, since, by.name, by.reason)
	}, append([]string{"webhooks", "replay", name}, where...), nil
}
