// Package datadir gives one process at a time the right to work in a data directory.
//
// It promises that a second process is refused with what holds the directory and what to do,
// and that a lock file which was removed lets none in unnoticed.
//
// It knows nothing of what is in the directory.
package datadir
