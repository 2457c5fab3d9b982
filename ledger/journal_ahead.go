// Reading ahead: one goroutine reads, checks and decodes journal rows while another applies
// the rows before them.

package ledger

import (
	"iter"

	"perennial/ledger/fact"
)

// decoded is a row that continues the chain, with its fact.
type decoded struct {
	row  Row
	fact fact.Fact
}

// aheadRows is how many rows are passed on at once, and aheadParts how many such parts may
// wait.
const (
	aheadRows  = 256
	aheadParts = 4
)

// readAhead calls do with the rows after a head, in order, a part at a time. It returns the
// first error of a row, after passing on all rows before it, or do's error. It then stops
// reading rows.
func readAhead(h head, rows iter.Seq2[Row, error], do func([]decoded) error) error {
	parts, stop, ended := make(chan []decoded, aheadParts), make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(parts)
		ended <- decodeInto(h, rows, parts, stop)
	}()
	var failed error
	for part := range parts {
		if failed != nil {
			continue
		}
		if failed = do(part); failed != nil {
			close(stop)
		}
	}
	if err := <-ended; failed == nil {
		return err
	}
	return failed
}

// decodeInto passes on the rows it could read, even when it returns an error.
func decodeInto(h head, rows iter.Seq2[Row, error], parts chan<- []decoded, stop <-chan struct{}) (err error) {
	var buf []byte
	part := make([]decoded, 0, aheadRows)
	hand := func() (goOn bool) {
		select {
		case parts <- part:
			part = make([]decoded, 0, aheadRows)
			return true
		case <-stop:
			return false
		}
	}
	for r, failed := range rows {
		if err = failed; err != nil {
			break
		}
		if buf, err = h.followedBy(r, buf); err != nil {
			break
		}
		h = head{seq: r.Seq, hash: r.Hash}
		d := decoded{row: r}
		if d.fact, err = factOf(r); err != nil {
			break
		}
		if part = append(part, d); len(part) == aheadRows && !hand() {
			return nil
		}
	}
	if len(part) > 0 {
		hand()
	}
	return err
}
