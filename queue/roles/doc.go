// Package roles defines what users of NATS may do: their permissions, the server
// configuration and nsc commands that grant them, and the doctor's check of a server.
//
// Each user has its own NATS account, which imports only what its roles need. If a user's
// request contains a reply or deliver subject, this subject is in the user's account, never in
// the runner's. Each user's inboxes are separate.
//
// The package knows the subjects of an account's streams, service and broker. It runs no
// server.
package roles
