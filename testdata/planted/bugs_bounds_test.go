package planted

// boundBugs let a producer fill the journal.
var boundBugs = []bug{
	{name: "a content that is refused again is another fact", file: "jobs/accept.go", run: "OncePerContent",
		old: "if err != nil || before {", new: "if err != nil || before && contents < 0 {"},
	{name: "one id fills the journal", file: "jobs/accept.go", run: "TestBeyond32Refusals",
		old: "if contents >= ledger.MaxRefusals {", new: "if contents < 0 {"},
	{name: "what has no fact has no dead letter either", file: "jobs/intake.go", run: "TestARefusalWithoutAFact",
		old: "if a.dead != \"\" {", new: "if a.dead == \"-\" {"},
	{name: "content is escaped sixfold", file: "jobs/identity.go", run: "TestTheJournalGrows",
		old: "encoder.SetEscapeHTML(false)", new: "encoder.SetEscapeHTML(true)"},
	{name: "the hash of a content changes with its escapes", file: "jobs/identity.go", run: "TestTheHashOfAContent",
		old: "|| bytes.ContainsAny(content, \"<>&\") {", new: "|| len(content) == 0 {"},
	{name: "every reason is named for every proxy", file: "ledger/skipped.go", run: "TestOneFactNames",
		old: "return len(f.Skipped) >= maxSkipReasons || size > maxSkipReasonBytes", new: "return size < 0"},
	{name: "of several proxies that are left out one is", file: "ledger/apply.go", run: "TestSeveralProxiesAreLeftOut",
		old: "for _, x := range f.Proxies() {", new: "for _, x := range f.Proxies()[:1] {"},
	{name: "conflicts of before the migration are forgotten", file: "ledger/migrations/00011_refused_contents.sql", run: "TestALedgerOfAnOlderSchema",
		old: "type = 'command.conflict' OR", new: "type = 'command.conflicts' OR"},
	{name: "what was refused in an archived year is forgotten", file: "ledger/verify.go", run: "TestWhatWasRefusedInAnArchivedYear",
		old: ", \"refused_contents\"}", new: "}"},
	{name: "a dead letter is six times its command", file: "queue/dead.go", run: "TestADeadLetterIsFourTimes",
		old: "&& len(text) <= 2*len(d.Data)+1<<10", new: "&& len(text) > 0"},
	{name: "archiving forgets who asked", file: "ledger/snapshot.go", run: "TestAnArchivedLedgerSaysAllOfMoneyAndCommandsThatItSaidBefore",
		old: ", 'user', j.data ->> '$.user')", new: ")"},
	{name: "a reason does not name the user that asked", file: "ledger/user.go", run: "TestANameIsFollowedByTheUserThatAsked",
		old: "if user == \"\" || user == by {", new: "if user == \"\" || user != by {"},
}
