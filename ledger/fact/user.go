// This file has the operator and the NATS user in a fact.

package fact

import (
	"context"
	"strings"
)

type userKey struct{}

// WithUser returns a context with the NATS user who sent the request, as the server
// identified it. The facts of the request contain the user (see UserOf). user is "" if the
// server did not identify one.
func WithUser(ctx context.Context, user string) context.Context {
	return context.WithValue(ctx, userKey{}, user)
}

// UserOf returns the NATS user that WithUser stored in the context, or "".
func UserOf(ctx context.Context) string {
	user, _ := ctx.Value(userKey{}).(string)
	return user
}

// Signed returns the name of the operator who made a change: the name in the request,
// followed by the NATS user if that is another name.
func Signed(by, user string) string {
	if user == "" || user == by {
		return by
	}
	return by + userMark + user + ")"
}

// Said returns the reason for the operation's state. by is the name of the operator who
// cancelled it.
func (f CommandCancelled) Said(by string) string { return "cancelled by " + by + ": " + f.Reason }

// Said returns the reason for the operation's state. by is the name of the operator who
// answered the review.
func (f OperationResolved) Said(by string) string { return f.Outcome + " by " + by + ": " + f.Reason }

// userMark precedes the NATS user in the result of Signed.
const userMark = " (NATS user "

// ClaimsUser reports whether a name in a request looks as if Signed had added a NATS user.
func ClaimsUser(by string) bool { return strings.Contains(by, strings.TrimSpace(userMark)) }
