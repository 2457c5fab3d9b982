// Package quota explains which limit of a NATS account is too low, or has caused the refusal of
// a request. It also says what to configure.
//
// If an operator can resolve a refusal by JetStream, its explanation contains the limit's
// name in the configuration of nats-server. Refusals are recognised by their codes, because
// their texts differ between versions of the server.
//
// The package sends no requests; callers pass errors and limits to it.
package quota
