// Package caller identifies the user who sent a request, and limits how many requests of one
// user may be in progress or waiting.
//
// A name that no server has verified does not count. No reply is sent to a subject of NATS
// or of Perennial. A user who floods a service delays only that user's requests.
//
// The package must not depend on the requests or their replies.
package caller
