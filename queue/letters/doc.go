// Package letters stores an account's dead letters: commands that could not be read, with
// the reason.
//
// A dead letter is on disk before its command is acknowledged. If the same dead letter is stored
// twice, the stream keeps one copy. A dead letter is at most about twice as large as its
// command, plus its reason and 1 KiB.
//
// The package must not depend on a command's meaning; the caller gives the reason.
package letters
