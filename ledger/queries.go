// The reading parts of a ledger, by subject.

package ledger

import (
	"context"
	"database/sql"
	"time"

	"perennial/ledger/sqlite"
)

// reading holds the connections that every part reads with. They never write.
type reading struct{ read *sql.DB }

func (r reading) query(ctx context.Context, query string, args ...any) sqlite.Rows {
	return sqlite.Query(ctx, r.read, query, args...)
}

// Operations reads commands, operations, their lines and reviews, as they are now.
type Operations struct {
	reading

	journal *Journal
}

// Fleet reads the table of proxies: listings, expiries, renewals and prices paid.
type Fleet struct{ reading }

// Sweeps reads the slots of schedules, their plans and their commands.
type Sweeps struct {
	reading

	journal *Journal
}

// Money reads the books: postings, spending, exposure and comparisons with the provider.
type Money struct {
	reading

	journal *Journal
}

// Metrics reads the counts and ages that are exported as metrics.
type Metrics struct {
	reading

	path string // of the ledger file
}

// Journal reads the file's binding and the rows of the journal, including archived rows
// from their archives.
type Journal struct {
	reading

	clock    func() time.Time
	path     string
	written  bool // by this process, which keeps the newest rows in tail
	tail     *tail
	base     *base        // the row before the first; nil at the journal's beginning
	archives archiveCache // the file's archives
}

// queries embeds all the parts, except Journal.
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
