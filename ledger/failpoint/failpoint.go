// Package failpoint lets tests stop the program at the moments listed in
// testdata/faults/README.md, and reduce sizes that are large in production. Only tests set
// either. Both travel in the context, so that simulations in one process have their own.
package failpoint

import "context"

type (
	hookKey struct{}
	sizeKey string
)

// With returns a context that reports its moments to reached.
func With(ctx context.Context, reached func(point string)) context.Context {
	return context.WithValue(ctx, hookKey{}, reached)
}

// Reached reports a moment.
func Reached(ctx context.Context, point string) { Of(ctx)(point) }

// Of returns the function that reports moments, for code called without the context.
func Of(ctx context.Context) (reached func(point string)) {
	if reached, ok := ctx.Value(hookKey{}).(func(point string)); ok {
		return reached
	}
	return func(string) {}
}

// WithSize returns a context in which a named size differs from production.
func WithSize(ctx context.Context, name string, size int64) context.Context {
	return context.WithValue(ctx, sizeKey(name), size)
}

// Size returns a named size, usual if no test set it.
func Size(ctx context.Context, name string, usual int64) int64 {
	if size, ok := ctx.Value(sizeKey(name)).(int64); ok {
		return size
	}
	return usual
}
