// Package schedules renews proxies before they expire. The cron expression of a schedule
// gives its slots (scheduled times). The run of a slot reads the ledger's table of proxies,
// calls package plans to decide what to renew, and publishes renewal commands on the
// account's commands stream.
//
// A slot is one row and runs at most once, even across restarts. Commands are in the journal
// before they are published. A large run continues after a restart. A run that fails is
// recorded as a fact. The package calls the provider only to read proxies, offers and the
// wallet. It never charges: it publishes commands, as any producer does.
package schedules
