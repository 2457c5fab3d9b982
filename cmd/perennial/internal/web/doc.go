// Package web is the page of `perennial run`: what expires, what it costs, what needs a
// person, whether the money is right, and the changes that a person makes of it. It
// promises:
//
//   - Nothing is shown and nothing is changed without a login: a one-time link, or a token
//     of the tokens file. Roles bound what a person sees and changes.
//   - A change is the verb of the account's service that the command line asks, with the
//     person's name: it is a fact, and the page shows the command that does the same.
//   - Every page is whole without JavaScript, and asks no other server for anything.
//   - No credential of a proxy is on any page, since the ledger that it reads has none, but
//     in the answer to an operator who asks for those of one proxy, once, after a fact.
//
// It reads ledgers and asks verbs through the interfaces of this package; the daemon wires
// it.
package web
