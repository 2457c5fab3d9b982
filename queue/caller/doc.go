// Package caller identifies the user who sent a request, and limits each user's requests. It
// reads what a NATS server says about a request, and limits how many of one user's requests may
// be in progress or waiting.
//
// A name that no server has verified does not count. No reply is sent to a subject of NATS
// or of Perennial. A user who floods a service delays only that user's requests.
//
// The package must not depend on the requests or their replies.
package caller
