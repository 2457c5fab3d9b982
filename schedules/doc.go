// Package schedules renews proxies before they expire. A schedule's cron
// expression gives slots; each slot fires once, whatever restarts, and what it
// does is a sweep: read the ledger's table of proxies, have package plans decide what is
// renewed, publish renewal commands on the account's commands stream.
//
// It promises: a slot is one row and fires at most once; nothing is published that the
// journal does not hold; a large sweep continues after a restart; a sweep that cannot be
// made is a fact. It never calls the provider except to read proxies, offers and the wallet,
// and never spends: its commands go through the commands stream as every producer's do.
package schedules
