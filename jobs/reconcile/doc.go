// Package reconcile compares the books with the provider: orders, renewals, expiries
// and the wallet. It reads both, corrects neither, and reports each difference as a
// finding, with what could explain it where that is known.
package reconcile
