// Package lease says who runs which account on a NATS server that several runners share.
//
// It promises that at most one runner takes itself for the holder of an account: a holder
// that cannot renew in time gives up before the server lets the next one in, and what other
// clients write into the bucket neither takes a lease nor admits a runner. Waiting for a
// lease asks the server nothing.
//
// It owns the bucket queue.LeaseBucket. It knows neither what a runner does with its account
// nor which runner should have it: a [Turn] says whom it lets go first.
package lease
