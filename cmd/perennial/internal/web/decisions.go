// The audit log.

package web

import (
	"strconv"

	"perennial/ledger/report"
)

// decisionsListed limits the entries on a page.
const decisionsListed = 100

// decisionsView is one page of the audit log.
type decisionsView struct {
	Rows  []report.Decision
	Older string // address of the next page; "" at the end
}

// decisions shows the audit log, newest first.
func (s *overviewPages) decisions(q accountRequest) {
	before, _ := strconv.ParseInt(q.URL.Query().Get("before"), 10, 64)
	rows, next, err := q.account.Ledger().Report().DecisionsBefore(q.Context(), before, decisionsListed)
	if err != nil {
		s.frame.broken(q, err)
		return
	}
	v := decisionsView{Rows: rows}
	if next > 0 {
		v.Older = to(q.account.AccountName(), "log", "before", strconv.FormatInt(next, 10))
	}
	s.frame.show(q, "log", "Activity", v)
}
