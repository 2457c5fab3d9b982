// Package lease decides which runner has which account, on a NATS server that several
// runners share.
//
// At most one runner considers itself the leader of an account. A leader that cannot renew
// its lease in time gives up before another runner can take it. Keys that other clients
// write into the bucket neither take a lease away nor give one. Waiting for a lease sends no
// requests to the server.
//
// The package owns the bucket queue.LeaseBucket. It must not depend on what a runner does with
// an account, or on which runner should have the account. A [Turn] says which runner may go
// first.
package lease
