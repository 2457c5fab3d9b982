// Package bucket has the functions that Perennial's small key-value buckets share: creation
// on demand, watches, and compare-and-set writes.
//
// If two clients create a bucket at the same time, both get it. A watch reports the last
// entry of each key, then the end of these entries, then every change.
//
// The package must not depend on a bucket's purpose or the meaning of its keys. Leases,
// runners, pins and webhook positions have their own packages.
package bucket
