// Package cluster is what the runners of one configuration know about one another on an
// external NATS. It covers the heartbeats, the preferred runner for each account, handovers,
// and how a CLI command borrows an account.
//
// The package decides. It sends nothing except a borrower's heartbeats: its caller carries out
// the decisions. It does not know the ledger or the provider.
package cluster
