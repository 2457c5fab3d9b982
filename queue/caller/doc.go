// Package caller identifies who asks, and how much room that user has. It reads what a NATS
// server proves about a request, and bounds how many requests of one user are handled or
// wait.
//
// It promises that a name which no server proves does not count. No answer goes into a
// subject of NATS or of Perennial. A user who floods a service delays only itself.
//
// It knows neither the requests nor their answers.
package caller
