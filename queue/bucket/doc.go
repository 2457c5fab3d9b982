// Package bucket has what the small key-value buckets of Perennial have in common: they are
// made where they are missing, watched, and written by compare-and-set.
//
// It promises that two clients which make a bucket at the same moment both get it, and that a
// watch tells the last entry of each key, then that it has told all, then every change.
//
// It knows neither what a bucket is for nor what its keys mean: leases, runners, pins and
// positions of webhooks have packages of their own.
package bucket
