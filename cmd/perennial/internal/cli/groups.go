// The groups of commands. Each group embeds app, which holds the shared parts.

package cli

// ledgerCommands are the commands of `perennial ledger`.
type ledgerCommands struct{ *app }

// scheduleCommands are the commands of `perennial schedules`.
type scheduleCommands struct{ *app }

// providerCommands are the commands of `perennial proxies`, `orders`, `offers` and `wallet`.
type providerCommands struct{ *app }

// reviewCommands are the commands of `perennial reviews`.
type reviewCommands struct{ *app }

// operateCommands are the commands of `perennial accounts`, `webhooks`, `dead-letters` and
// `runners`.
type operateCommands struct{ *app }

// conformanceCommand is `perennial conformance`.
type conformanceCommand struct{ *app }
