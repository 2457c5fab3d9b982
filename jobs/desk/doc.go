// Package desk carries out what a person asks for: it releases, cancels and retries commands,
// books answers to reviews, and records money that no reply showed.
//
// It promises that each change is one fact in the person's name, with the reason; that a
// change decided on an older state of an operation is decided again; and that an amount that
// looks like a slip, or contradicts the provider, is asked back before it is booked.
//
// It owns no state. It must not know the queue of jobs, pauses and requests under way: the
// runner hands it functions for what it needs of them.
package desk
