// What people decided.

package web

import (
	"strconv"

	"perennial/ledger"
)

// decisionsListed is how many decisions a page shows.
const decisionsListed = 100

// decisionsView is a page of what people decided.
type decisionsView struct {
	Rows  []ledger.Decision
	Older string // the address of the next page; "" at the end
}

// decisions lists what people decided, the last first.
func (s *Server) decisions(q accountRequest) {
	before, _ := strconv.ParseInt(q.URL.Query().Get("before"), 10, 64)
	rows, next, err := q.account.Ledger().DecisionsBefore(q.Context(), before, decisionsListed)
	if err != nil {
		s.broken(q, err)
		return
	}
	v := decisionsView{Rows: rows}
	if next > 0 {
		v.Older = to(q.account.AccountName(), "log", "before", strconv.FormatInt(next, 10))
	}
	s.show(q, "log", "Activity", v)
}
