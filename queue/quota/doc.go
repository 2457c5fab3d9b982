// Package quota explains which limits of a NATS account refuse a request, or leave too
// little, and what to set.
//
// It promises that a refusal of JetStream which its operator can resolve names the limit as
// in the configuration of nats-server. It recognises refusals by their codes, because a
// server's texts differ between versions.
//
// It asks no server: the caller gives errors and limits.
package quota
