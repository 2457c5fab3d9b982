// The groups of CLI commands. Each group embeds app, which contains what the groups share.

package cli

// setupCommands are the commands that set up and run the program.
type setupCommands struct{ *app }

// sendCommands are the CLI commands that publish commands or change published commands.
type sendCommands struct{ *app }

// statusCommands are `perennial status` and `perennial operations`.
type statusCommands struct{ *app }

// eventCommands are the commands of `perennial events`.
type eventCommands struct{ *app }

// developCommands are `perennial sandbox`, `schema`, `bench` and other commands for
// developers.
type developCommands struct{ *app }

// completionCommands complete the arguments of commands in a shell.
type completionCommands struct{ *app }

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
