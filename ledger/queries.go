// The parts of a ledger that read, by subject.

package ledger

import (
	"context"
	"database/sql"
	"time"
)

// reading is what every part reads by: connections that never write.
type reading struct{ read *sql.DB }

func (r reading) query(ctx context.Context, query string, args ...any) rows {
	return queryOf(ctx, r.read, query, args...)
}

// Operations reads commands, operations, their lines and what is in review, as they are now.
type Operations struct {
	reading

	journal *Journal
}

// Fleet reads the table of proxies: what listings showed, expiries, renewals and prices paid.
type Fleet struct{ reading }

// Sweeps reads the slots of schedules, their plans and what they ordered.
type Sweeps struct {
	reading

	journal *Journal
}

// Money reads the book: postings, spending, exposure, what was compared with the provider.
type Money struct {
	reading

	journal *Journal
}

// Metrics reads the counts and ages that are exported as metrics.
type Metrics struct {
	reading

	path string // of the file
}

// Journal reads the rows of the journal, archived ones from their archives, and what the file
// is bound to.
type Journal struct {
	reading

	clock    func() time.Time
	path     string
	written  bool // by this process, which keeps the newest rows in tail
	tail     *tail
	base     *base        // the row before the first, nil for the beginning
	archives archiveCache // of its archives
}

// queries are all of them.
type queries struct {
	*Operations
	*Fleet
	*Sweeps
	*Money
	*Metrics
}

func queriesOf(j *Journal) queries {
	r := j.reading
	return queries{&Operations{r, j}, &Fleet{r}, &Sweeps{r, j}, &Money{r, j}, &Metrics{r, j.path}}
}
