// The list of runners, with their accounts, roles and lag.

package web

import (
	"context"
	"net/http"
	"time"
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
	v := s.frame.view(x, "Runners", "runners")
	v.Data = data
	code := http.StatusOK
	if data.Unknown != "" {
		code = http.StatusServiceUnavailable
	}
	s.frame.page(w, r, "runners", code, v)
}
