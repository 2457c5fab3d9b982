// Package clustertest tests several runners on a cluster of three real nats-server processes.
// The tests kill, freeze and disconnect processes under load. They then compare the provider's
// charges, the wallet, the events stream and the ledgers of all runners. The tests need the
// build tag check:
//
//	go test -tags check ./cmd/perennial/internal/clustertest
package clustertest
