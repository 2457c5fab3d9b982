// The list of schedules.

package web

import (
	"context"

	"perennial/schedules"
)

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
