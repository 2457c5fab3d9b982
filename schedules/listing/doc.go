// Package listing keeps the ledger's table of an account's proxies fresh by complete
// passes over the provider's list.
//
// An interrupted pass continues at its page, even in another process. A proxy that a
// pass misses stays in the table and is read on its own. A pass that loses too much
// serves nothing and is a fact. An unreadable entry does not affect the others.
//
// It decides nothing about a proxy: package plans decides what is due and what it may
// cost. It knows neither schedules nor streams.
package listing
