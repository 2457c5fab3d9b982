// Package roles is what users of NATS may do: their rights, a server's configuration and nsc
// commands that give them, and the doctor's questions whether a server does.
//
// It promises that a user has a NATS account of its own, which imports what its roles need
// and nothing else: a reply subject or a deliver subject that it names is one of its own
// account and never one of the runner's, and its inboxes are its own.
//
// It knows the subjects of the account's streams, service and broker, and runs no server.
package roles
