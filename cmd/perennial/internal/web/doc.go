// Package web is the web UI of `perennial run`. It shows what expires, what it costs, what
// needs an operator and whether the books agree, and lets operators make changes. It
// promises:
//
//   - Nothing is shown or changed without a login by one-time link or by a token of
//     the tokens file. Roles limit what a person sees and changes.
//   - A change calls the same verb as the command line, with the person's name. The
//     journal records it, and the page shows the equivalent command.
//   - Every page works without JavaScript, and loads nothing from other servers.
//   - Pages never contain proxy credentials, because the ledger has none. The only
//     exception is one answer to an operator who reveals a proxy's credentials, after a
//     journal entry.
//
// The package reads ledgers and calls verbs through its own interfaces. The daemon
// provides them.
package web
