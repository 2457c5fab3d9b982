// Package quota explains which limit of a NATS account refuses a request, or is too low,
// and what to configure.
//
// A refusal of JetStream that an operator can resolve is explained with the name of the
// limit in the configuration of nats-server. Refusals are recognised by their codes,
// because their texts differ between versions of the server.
//
// The package sends no requests; the caller gives errors and limits.
package quota
