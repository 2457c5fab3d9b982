// Package reconcile compares the books with the provider: orders, renewals, expiries
// and the wallet. It reads both, corrects neither, and reports each difference as a
// finding with the operations that could explain it.
package reconcile
