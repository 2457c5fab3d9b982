package report

import (
	"context"
	"database/sql"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
)

// Books are the books of one ledger, as reports read them.
type Books struct {
	Reader

	DB    *sql.DB // connections that never write
	Clock func() time.Time
}

// Reader reads the journal, including archived rows.
type Reader interface {
	Binding(ctx context.Context) (fact.Binding, error)
	SeqAt(ctx context.Context, at time.Time) (int64, error)
	Rows(ctx context.Context, after int64, limit int) ([]chain.Row, error)
}
