// Package reconcile compares the books with the provider: orders, renewals, expiries and
// the wallet. It reads both and corrects neither. It reports each difference as a finding,
// with possible explanations.
package reconcile
