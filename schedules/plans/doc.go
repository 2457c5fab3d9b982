// Package plans decides what one run of a schedule renews: what is due, in which order,
// what it is expected to cost, what is left out and why, and the commands that renew it.
// It holds the rules of a schedule's configuration and its calendar of slots.
//
// It promises: the same inputs and the same history give the same plan, and its commands
// byte for byte; what is left out is counted, with the reason; no limit of money is
// exceeded by what has a price, and by at most one renewal where none is known.
//
// It writes nothing, publishes nothing and reads no clock: Inputs has the time, History
// answers what was paid and how renewals ended. It knows no stream and no sweeper.
package plans
