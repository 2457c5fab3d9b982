// Package service serves the verbs of an account over NATS, and sends requests to them.
//
// Every request gets a reply or an error, even if the runner stops. The only exception: if too
// many requests of a verb wait, further requests are dropped. A reply that is too large for one
// message is sent in parts, all of them or none. Requests that wait for the provider or for an
// event do not reduce the capacity for other requests. Discovery shows each verb with the
// statistics of its requests.
//
// The package owns the subjects perennial.svc.<account>.*, and the codes of their errors. It
// must not depend on what a verb does; bodies are bytes.
package service
