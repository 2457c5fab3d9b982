package planted

// queueBugs take out the repairs of the queue, the intake and the account's host.
var queueBugs = []bug{
	{name: "a lease does not know its own write", file: "queue/lease.go", run: "TestAHolderKnowsItsOwnWrite",
		old: "err == nil && string(entry.Value()) != holder:",
		new: "err == nil && string(entry.Value()) != \"-\":"},
	{name: "an outage of NATS ends an account", file: "cmd/perennial/account_run.go", run: "TestOnlyABindingOrAHistoryEndsAnAccount",
		old: "\treturn errors.As(err, &binding) ||",
		new: "\treturn err != nil || errors.As(err, &binding) ||"},
	{name: "a purge of one line is of all", file: "queue/acks.go", run: "TestAPurgeOfALine",
		old: "\tif others {",
		new: "\tif others && subject == \"\" {"},
	{name: "what is passed over waits for ever", file: "jobs/ready.go", run: "TestWhatIsUrgent",
		old: "const passedMost = 3",
		new: "const passedMost = 1 << 30"},
	{name: "a line without room does not rest", file: "jobs/intake.go", run: "TestAPausedAccount",
		old: "\t\tif free := r.ready.free(placeOf(line)); free > 0 {\n\t\t\treturn free, nil",
		new: "\t\tif free := r.ready.free(placeOf(line)); free > -1<<20 {\n\t\t\treturn max(1, free), nil"},
	{name: "one kind that is due hides another", file: "ledger/operations.go", run: "TestWhatIsDueOfOneKind",
		old: "WHERE kind = ? AND state = ? AND live = 1 AND next_at IS NOT NULL",
		new: "WHERE ? <> '' AND state = ? AND live = 1 AND next_at IS NOT NULL"},
	{name: "the priority is part of the content", file: "jobs/identity.go", run: "TestACommandUnderAnotherPriority",
		old: "\tif c.Priority != queue.PriorityNormal {",
		new: "\tif c.Priority == \"-\" {"},
	{name: "a server that stores nothing looks healthy", file: "queue/server.go", run: "TestAnEmbeddedServerThatStoresNothing",
		old: "|| health.Status == \"ok\" {",
		new: "|| health.Status != \"-\" {"},
}
