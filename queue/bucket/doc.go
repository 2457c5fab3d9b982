// Package bucket holds what Perennial's small key-value buckets share: creation on demand,
// watching, and compare-and-set writes.
//
// It promises that two clients which create a bucket at the same moment both get it. A
// watch reports the last entry of each key, then the end of these, then every change.
//
// It knows neither a bucket's purpose nor the meaning of its keys: leases, runners, pins
// and webhook positions have packages of their own.
package bucket
