// Package cluster is what runners of one configuration know of one another on an external NATS:
// what each says of itself, which is preferred for which account, when an account is handed
// over, and how a command borrows one.
//
// It decides and sends nothing but a borrower's own word; the process carries out what it
// decides. It knows no ledger and no provider.
package cluster
