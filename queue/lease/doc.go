// Package lease decides which runner holds which account on a NATS server that several
// runners share.
//
// It promises that at most one runner considers itself the leader of an account. A leader
// that cannot renew in time gives up before the server lets the next one in. What other
// clients write into the bucket neither takes a lease nor admits a runner. Waiting for a
// lease sends the server no requests.
//
// It owns the bucket queue.LeaseBucket. It knows neither what a runner does with its
// account nor which runner should have it: a [Turn] says which runner may go first.
package lease
