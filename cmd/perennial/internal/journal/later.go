// Rows that a later version wrote and this version cannot apply.

package journal

import (
	"context"
	"errors"
	"fmt"

	"perennial/cmd/perennial/internal/config"
	"perennial/ledger/chain"
	"perennial/ledger/fact"
)

// LaterError means that a later version of the program wrote a row that this version cannot
// apply.
type LaterError struct {
	seq     int64
	unknown *fact.UnknownError
	version string // version of the runner that started last; "" if unknown or equal to this version
}

func (e *LaterError) Error() string {
	by, install := "", "the version that wrote it, or a later one: `perennial runners` shows which versions run"
	if e.version != "" {
		by, install = fmt.Sprintf(" (the runner that began last is %s)", e.version), e.version+" or a later version"
	}
	return fmt.Sprintf("a newer version of the program wrote row %d of the account's events%s: %s is not known to this one, %s. "+
		"So this runner stays a standby: it folds nothing from there on, and sends nothing. Install %s", e.seq, by, e.unknown.What(), config.Version, install)
}

func (e *LaterError) Unwrap() error { return e.unknown }

// foldKnown applies the rows before row seq. It returns the LaterError for row seq, which
// has a type or a field that this version does not know.
func (j Journal) foldKnown(ctx context.Context, rows []chain.Row, seq int64, unknown *fact.UnknownError) error {
	if n := seq - rows[0].Seq; n > 0 {
		if err := j.Ledger.Fold(ctx, rows[:n]); err != nil {
			return err
		}
	}
	version, err := j.Ledger.Sweeps.LastVersion(ctx)
	if err != nil || version == config.Version {
		version = ""
	}
	return &LaterError{seq: seq, unknown: unknown, version: version}
}

// IsLater reports whether err is a [LaterError].
func IsLater(err error) bool {
	_, ok := errors.AsType[*LaterError](err)
	return ok
}
