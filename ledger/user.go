package ledger

import "context"

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
