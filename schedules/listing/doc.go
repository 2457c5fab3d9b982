// Package listing keeps the ledger's table of an account's proxies fresh by complete passes
// over the provider's list.
//
// It promises: a pass that broke off, or whose process ended, continues at its page; what one
// pass does not show stays in the table and is read on its own; a pass that loses too much
// serves nothing and is a fact; an entry that cannot be read spoils no other.
//
// It owns no proxy's fate: what is due and what it may cost is decided by package plans. It
// knows no schedule and no stream.
package listing
