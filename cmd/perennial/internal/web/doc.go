// Package web is the web UI of `perennial run`. It shows what expires, what renewals cost,
// what needs an operator and whether the books agree. Operators can make changes. The
// package promises:
//
//   - Nothing is shown or changed without a login by one-time link, by a token from
//     the tokens file, or by a trusted proxy. Roles limit what a person sees and changes.
//   - A change makes the same service request as the CLI, with the person's name. The
//     journal records the change, and the page shows the equivalent CLI command.
//   - Every page works without JavaScript, and loads nothing from other servers.
//   - Pages never contain proxy credentials, because the ledger has none. The only
//     exception is the response to an operator who reveals a proxy's credentials. The
//     journal first records who reveals them.
//
// The package reads ledgers and makes service requests through its own interfaces, which the
// daemon implements.
package web
