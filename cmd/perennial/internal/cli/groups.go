// The groups of commands: each has the flags and the output of its commands; what they share
// is the app.

package cli

// ledgerCommands are `perennial ledger`.
type ledgerCommands struct{ *app }

// scheduleCommands are `perennial schedules`.
type scheduleCommands struct{ *app }

// providerCommands are `perennial proxies`, `orders`, `offers` and `wallet`.
type providerCommands struct{ *app }

// reviewCommands are `perennial reviews`.
type reviewCommands struct{ *app }

// operateCommands are `perennial accounts`, `webhooks`, `dead-letters` and `runners`.
type operateCommands struct{ *app }

// conformanceCommand is `perennial conformance`.
type conformanceCommand struct{ *app }
