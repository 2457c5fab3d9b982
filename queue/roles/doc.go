// Package roles defines what users of NATS may do: their rights, the server configuration
// and nsc commands that grant them, and the doctor's check of a server.
//
// It promises that each user has a NATS account of its own, which imports only what its
// roles need. A reply or deliver subject that a user names is in its own account, never in
// the runner's, and its inboxes are its own.
//
// It knows the subjects of an account's streams, service and broker, and runs no server.
package roles
