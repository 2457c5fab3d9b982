// Package schedules renews proxies before they expire. A schedule's cron expression
// gives slots. Each slot fires once, even across restarts. Its run reads the ledger's
// table of proxies, has package plans decide what to renew, and publishes renewal
// commands on the account's commands stream.
//
// A slot is one row and fires at most once. Everything published is in the journal
// first. A large run continues after a restart. A failed run is a fact. The package
// calls the provider only to read proxies, offers and the wallet. It never charges: its
// commands go through the commands stream like any producer's.
package schedules
