//go:build !check

package testrun

// Check says whether this is the larger run of `make check`.
const Check = false
