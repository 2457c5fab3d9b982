// Package objects stores data that is too large for a message: snapshots of a ledger's
// state, and the proxies of a runner's last listing.
//
// An object is listed only if it is stored completely, and a read to its end verifies the
// digest. The parts that an interrupted store leaves are removed by the next store. A
// bucket whose settings would lose snapshots is refused.
//
// The package must not depend on an object's content.
package objects
