// Package trial manages an account that exists on a server for a while, such as a
// benchmark's, and is then removed with everything created for it.
//
// It promises to refuse an account that already has anything there, and to remove nothing
// of another account.
//
// It knows the names of what an account has, not the content.
package trial
