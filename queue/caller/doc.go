// Package caller says who asks, and how much room that user has: what a NATS server proves of
// a request, and how many requests of one user are worked on or wait.
//
// It promises that a name which no server proves is none, that an answer goes into no
// subject of NATS or of Perennial, and that a user who floods a service delays itself alone.
//
// It knows neither what is asked nor how it is answered.
package caller
