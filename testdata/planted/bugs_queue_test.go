package planted

// queueBugs take out the repairs of the queue, the intake and the account's host.
var queueBugs = []bug{
	{name: "a lease does not know its own write", file: "queue/lease.go", run: "TestAHolderKnowsItsOwnWrite",
		old: "err == nil && string(entry.Value()) != holder:",
		new: "err == nil && string(entry.Value()) != \"-\":"},
	{name: "an outage of NATS ends an account", file: "cmd/perennial/account_run.go", run: "TestOnlyABindingOrAHistoryEndsAnAccount",
		old: "\treturn errors.As(err, &binding) ||",
		new: "\treturn err != nil || errors.As(err, &binding) ||"},
}
