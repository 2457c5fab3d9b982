// The person and the NATS user named in a fact.

package fact

import (
	"context"
	"strings"
)

type userKey struct{}

// WithUser sets the NATS user that asked for what is written under the context, as named by
// its server; "" if the server named none.
func WithUser(ctx context.Context, user string) context.Context {
	return context.WithValue(ctx, userKey{}, user)
}

// UserOf returns the NATS user that asked, "" if no server proved one.
func UserOf(ctx context.Context) string {
	user, _ := ctx.Value(userKey{}).(string)
	return user
}

// Signed returns for people who made a change: the name in the request, and the NATS user
// if the server proved another name.
func Signed(by, user string) string {
	if user == "" || user == by {
		return by
	}
	return by + userMark + user + ")"
}

// Said returns the reason of the operation's state, with the name of the canceller.
func (f CommandCancelled) Said(by string) string { return "cancelled by " + by + ": " + f.Reason }

// Said returns the reason of the operation's state, with the name of the answerer.
func (f OperationResolved) Said(by string) string { return f.Outcome + " by " + by + ": " + f.Reason }

// userMark precedes a user that a server proved.
const userMark = " (NATS user "

// ClaimsUser reports whether a name would look as if made by Signed, although no server has
// proven its user.
func ClaimsUser(by string) bool { return strings.Contains(by, strings.TrimSpace(userMark)) }
