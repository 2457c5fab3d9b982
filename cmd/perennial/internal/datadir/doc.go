// Package datadir ensures that only one process at a time works in a data directory.
//
// A second process gets an error with the path of the lock and the remedy. If the lock file is
// removed, the first process still notices a second process.
//
// The package does not know the directory's contents.
package datadir
