package planted

// sweepBugs are of the sweeps and of the queue.
var sweepBugs = []bug{
	{trap: 8, name: "sweeps take what somebody holds", file: "schedules/barred.go",
		old: "\tcase in.Claimed[proxy.ProxyID]:\n\t\treturn ReasonClaimed\n",
		new: ""},
	{trap: 9, name: "sweeps renew what was renewed", file: "schedules/barred.go",
		old: "case paid:\n\t\treturn 0, ReasonRenewed, nil",
		new: "case paid && p.in.Now.IsZero():\n\t\treturn 0, ReasonRenewed, nil"},
	{trap: 11, name: "a lead time as long as the duration", file: "schedules/schedule.go",
		old: "if s.RenewBefore >= time.Duration(s.DurationDays)*day {",
		new: "if s.RenewBefore > time.Duration(s.DurationDays)*day {"},
	{trap: 23, name: "every proxy is its own canary", file: "schedules/plan.go",
		old: "if !cost.known && p.canary[kindOf(proxy)] {",
		new: "if !cost.known && p.canary[kind{}] {"},
	{trap: 31, name: "half a listing proves an absence", file: "schedules/lister.go",
		old: "if at, err = l.list(ctx, at); err != nil {",
		new: "if at, err = l.list(ctx, at); err != nil && ctx.Err() != nil {"},
	{name: "the relay leaves an event out", file: "queue/relay.go", run: "Relay|Events|Event",
		old: "next: last + 1}",
		new: "next: last + 2}"},
	{trap: 23, name: "a canary that failed is the next one again", file: "schedules/plan.go",
		old: "endings > 0 && !p.letLast {",
		new: "endings < 0 && !p.letLast {"},
}
