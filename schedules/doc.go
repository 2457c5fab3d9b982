// Package schedules renews proxies before they expire. A schedule's cron
// expression gives slots; each slot fires once, whatever restarts, and what it
// does is a sweep: read the ledger's table of proxies, plan what is due, fit it
// into the budget, publish renewal commands on the account's commands stream.
//
// It promises: a slot is one row and fires at most once; the same plan made
// twice is the same commands, byte for byte; nothing is published that the
// journal does not hold; what a sweep leaves out is counted, with the reason; a large
// sweep goes on where it was; a sweep that cannot be made is a fact. It never
// calls the provider except to read proxies, offers and the wallet, and never spends: its
// commands go through the commands stream as every producer's do.
package schedules
