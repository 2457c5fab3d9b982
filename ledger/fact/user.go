// The person and the NATS user in whose name a fact is written.

package fact

import (
	"context"
	"strings"
)

type userKey struct{}

// WithUser says that what is written under the context was asked for by a user of
// NATS, as its server named it; "" for one that it did not name.
func WithUser(ctx context.Context, user string) context.Context {
	return context.WithValue(ctx, userKey{}, user)
}

// UserOf is the user of NATS that asked, "" where no server proved one.
func UserOf(ctx context.Context) string {
	user, _ := ctx.Value(userKey{}).(string)
	return user
}

// Signed is in whose name a change was made, for people: the name that its request
// said, and the user of NATS that asked where its server proved another one.
func Signed(by, user string) string {
	if user == "" || user == by {
		return by
	}
	return by + userMark + user + ")"
}

// Said is the reason of the operation's state, in the name of who cancelled it.
func (f CommandCancelled) Said(by string) string { return "cancelled by " + by + ": " + f.Reason }

// Said is the reason of the operation's state, in the name of who answered.
func (f OperationResolved) Said(by string) string { return f.Outcome + " by " + by + ": " + f.Reason }

// userMark precedes a user that a server proved.
const userMark = " (NATS user "

// ClaimsUser reports whether a name would read as one that Signed made: nothing has
// proven the user in it.
func ClaimsUser(by string) bool { return strings.Contains(by, strings.TrimSpace(userMark)) }
