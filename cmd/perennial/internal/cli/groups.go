// The groups of CLI commands. Each group embeds app, which has the shared parts.

package cli

// setupCommands is the commands that set up and run the program.
type setupCommands struct{ *app }

// sendCommands is the commands that publish commands, or change published ones.
type sendCommands struct{ *app }

// statusCommands is `perennial status` and `perennial operations`.
type statusCommands struct{ *app }

// eventCommands is the commands of `perennial events`.
type eventCommands struct{ *app }

// developCommands is `perennial sandbox`, `schema`, `bench` and other commands for developers.
type developCommands struct{ *app }

// completionCommands completes the arguments of commands in a shell.
type completionCommands struct{ *app }

// ledgerCommands is the commands of `perennial ledger`.
type ledgerCommands struct{ *app }

// scheduleCommands is the commands of `perennial schedules`.
type scheduleCommands struct{ *app }

// providerCommands is the commands of `perennial proxies`, `orders`, `offers` and `wallet`.
type providerCommands struct{ *app }

// reviewCommands is the commands of `perennial reviews`.
type reviewCommands struct{ *app }

// operateCommands is the commands of `perennial accounts`, `webhooks`, `dead-letters` and
// `runners`.
type operateCommands struct{ *app }

// conformanceCommand is `perennial conformance`.
type conformanceCommand struct{ *app }
