// Package letters stores an account's dead letters: commands that could not be read, with
// the reason.
//
// It promises that a letter is on disk before its command is acknowledged. A letter stored
// twice is kept once. A letter is at most four times as large as its command.
//
// It knows neither a command's meaning nor why it could not be read: the caller gives the
// reason.
package letters
