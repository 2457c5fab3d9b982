// Package objects stores data that is too large for a message: snapshots of a ledger's
// state, and the proxies of a runner's last listing.
//
// An object is listed only after all of it is stored. Reading an object to its end verifies
// its digest. [Fleet.Store] and [Snapshots.RemoveBut] remove the parts that interrupted
// stores left. A bucket whose settings would lose snapshots is refused.
//
// The package must not depend on an object's content.
package objects
