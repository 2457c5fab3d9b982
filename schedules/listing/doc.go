// Package listing keeps the ledger's table of an account's proxies fresh by complete passes
// over the provider's list.
//
// An interrupted pass continues at its page, even in another process. A proxy that a pass
// misses stays in the table and is read separately. If a pass misses too many proxies, the
// table does not count as fresh, and a fact reports the pass. An entry that cannot be read
// does not affect the others.
//
// The package decides nothing about a proxy; package plans decides what is due and what it
// may cost. It must not depend on schedules or streams.
package listing
