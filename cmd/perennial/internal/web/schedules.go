// The list of schedules.

package web

import "perennial/schedules"

type schedulesView struct {
	Rows     []schedules.Status
	NoRunner string
}

func (s *Server) schedules(q accountRequest) {
	var v schedulesView
	v.Rows, v.NoRunner = s.sweeps(q.Context(), q.account)
	s.show(q, "schedules", "Schedules", v)
}
