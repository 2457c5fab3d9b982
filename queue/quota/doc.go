// Package quota says in words what the limits of a NATS account refuse, or leave too little
// for, and what to set.
//
// It promises that a refusal of JetStream which its operator can end names the limit as the
// configuration of nats-server does. Refusals are known by their codes; the texts of a server
// differ between versions.
//
// It asks no server: errors and limits are handed in.
package quota
