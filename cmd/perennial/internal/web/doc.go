// Package web serves the web UI of `perennial run`. It shows what expires, what renewals
// cost, what needs an operator and whether the books agree, and it makes operators'
// changes. It promises:
//
// Nothing is shown or changed without a login: a one-time link, or a token of the tokens
// file. Roles bound what a person sees and changes.
//
// A change calls the same verb of the account's service as the command line, with the
// person's name. It is a fact, and the page shows the equivalent command.
//
// Every page works without JavaScript and loads nothing from other servers.
//
// No page shows a proxy's credentials, which the ledger does not have. The only
// exception is the answer to an operator who asks for one proxy's credentials, once,
// after a fact.
//
// It reads ledgers and calls verbs through its own interfaces; the daemon wires it.
package web
