// Package trial has an account that is on a server for a while, such as a benchmark's, and is
// removed with all that was made for it.
//
// It promises that an account which has anything there is refused, and that an end removes
// nothing of another account.
//
// It knows the names of what an account has, and not what is in it.
package trial
