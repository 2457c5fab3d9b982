// The queries of a ledger, by subject.

package tables

import (
	"context"
	"database/sql"

	"perennial/ledger/chain"
	"perennial/ledger/sqlite"
)

// reading has the database connections of every part. They never write.
type reading struct{ read *sql.DB }

func (r reading) query(ctx context.Context, query string, args ...any) sqlite.Rows {
	return sqlite.Query(ctx, r.read, query, args...)
}

// journal reads rows of the journal, including archived rows.
type journal interface {
	Row(ctx context.Context, seq int64) (chain.Row, error)
}

// Operations reads commands, operations, their lines and reviews.
type Operations struct {
	reading

	journal journal
}

// Fleet reads the table of proxies: listings, expiries, renewals and prices.
type Fleet struct{ reading }

// Sweeps reads the scheduled times of schedules, their plans and their commands.
type Sweeps struct {
	reading

	journal journal
}

// Money reads the books: postings, spending, exposure and comparisons with the provider.
type Money struct{ reading }

// Metrics reads the counts and ages that are exported as metrics.
type Metrics struct{ reading }

// Queries has the queries of a ledger, by subject.
type Queries struct {
	Operations *Operations
	Fleet      *Fleet
	Sweeps     *Sweeps
	Money      *Money
	Metrics    *Metrics
}

// New returns the queries of a ledger file. db must not write. j reads rows of the journal,
// including archived rows.
func New(db *sql.DB, j journal) Queries {
	r := reading{db}
	return Queries{&Operations{r, j}, &Fleet{r}, &Sweeps{r, j}, &Money{r}, &Metrics{r}}
}
