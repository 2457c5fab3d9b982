// Package failpoint stops the program, in tests, at the points listed in
// testdata/faults/README.md. It also reduces sizes that are large in production. Only tests
// set points and sizes. They are stored in the context, so that several simulations in one
// process do not affect each other.
package failpoint

import "context"

type (
	hookKey struct{}
	sizeKey string
)

// With returns a context in which the function reached is called at each point.
func With(ctx context.Context, reached func(point string)) context.Context {
	return context.WithValue(ctx, hookKey{}, reached)
}

// Reached reports that the program has reached a point.
func Reached(ctx context.Context, point string) { Of(ctx)(point) }

// Of returns the function that reports points, for code that is called without the context.
func Of(ctx context.Context) (reached func(point string)) {
	if reached, ok := ctx.Value(hookKey{}).(func(point string)); ok {
		return reached
	}
	return func(string) {}
}

// WithSize returns a context that overrides a named size.
func WithSize(ctx context.Context, name string, size int64) context.Context {
	return context.WithValue(ctx, sizeKey(name), size)
}

// Size returns a named size. If no test overrides the size, it returns usual.
func Size(ctx context.Context, name string, usual int64) int64 {
	if size, ok := ctx.Value(sizeKey(name)).(int64); ok {
		return size
	}
	return usual
}
