//go:build !check

package testrun

// Check is true in the larger test run of `make check`.
const Check = false
