// Package datadir lets only one process at a time work in a data directory.
//
// It refuses a second process, with the holder's name and what to do. Removing the lock
// file lets no second process in unnoticed.
//
// It does not know the directory's contents.
package datadir
