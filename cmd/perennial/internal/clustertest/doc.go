// Package clustertest holds the tests of several runners on a cluster of three real
// nats-server processes. They kill, freeze and cut off processes under load, and compare
// what is left: provider's charges, wallet, events stream and the ledgers of all runners.
// The tests need the build tag cluster:
//
//	go test -tags cluster ./cmd/perennial/internal/clustertest
package clustertest
