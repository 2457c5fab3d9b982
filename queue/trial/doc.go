// Package trial manages an account that exists on a server for a limited time, such as the
// account of a benchmark. At the end it removes everything that was created for the account.
//
// An account that already has something on the server is refused. Nothing that belongs to
// another account is removed.
//
// The package knows the names of an account's streams and buckets, not their content.
package trial
