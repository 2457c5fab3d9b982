// Package cluster manages the runners of a configuration on an external NATS. It covers their
// heartbeats, the preferred runner for each account, handovers, and the lending of accounts to
// CLI commands.
//
// The package decides, and its caller executes the decisions. The package sends nothing except
// a borrower's heartbeats. It does not know the ledger or the provider.
package cluster
