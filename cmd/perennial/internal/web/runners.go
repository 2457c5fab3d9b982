// Runners: which runs which account, which follow, and how far they are.

package web

import (
	"context"
	"net/http"
	"time"
)

// Runner is a living runner of the configuration, as it says of itself.
type Runner struct {
	Name      string
	Version   string
	StartedAt time.Time
	SaidAt    time.Time
	Stopping  bool // it drains, and takes no account
	This      bool // it shows this page
	Accounts  []RunnerAccount
}

// RunnerAccount is what a runner does with an account.
type RunnerAccount struct {
	Account string
	Role    string // active or standby
	Head    int64  // the newest row of its ledger
	Lag     uint64 // rows of the events stream that a standby has not folded yet
	Lease   bool
	Ready   bool // a standby that could run the account at once
	Borrows bool // a command that has the account for itself

	Settings string // a hash of the account's settings and schedules
}

// runnersView is the runners of the accounts that a person may see.
type runnersView struct {
	Rows    []Runner
	Unknown string // why the others cannot be shown
}

func (s *Server) runners(w http.ResponseWriter, r *http.Request, x session) {
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
	v := s.view(x, "Runners", "runners")
	v.Data = data
	code := http.StatusOK
	if data.Unknown != "" {
		code = http.StatusServiceUnavailable
	}
	s.page(w, r, "runners", code, v)
}
