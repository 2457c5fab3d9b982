// Reading ahead: other goroutines read, check and decode rows while earlier rows are
// applied.

package ledger

import (
	"iter"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
)

// part is a run of consecutive rows. Each row is checked against the hash chain and
// decoded.
type part struct {
	after chain.Head
	rows  []chain.Row
	facts []fact.Fact   // of the rows before the first broken row
	err   error         // of the first broken row
	done  chan struct{} // closed when facts and err are set
}

// aheadRows is the number of rows in a batch, aheadParts the number of batches that may wait
// for the fold.
const (
	aheadRows  = 256
	aheadParts = 4
)

// readAhead calls do with the rows after a head, in order. It stops at the first error of do
// or of a row. It has then passed all earlier rows to do.
func readAhead(h chain.Head, rows iter.Seq2[chain.Row, error], do func(chain.Row, fact.Fact) error) (err error) {
	parts, stop, ended := make(chan *part, aheadParts), make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(parts)
		ended <- passOn(h, rows, parts, stop)
	}()
	for p := range parts {
		if err != nil {
			continue
		}
		if err = p.each(do); err != nil {
			close(stop)
		}
	}
	if failed := <-ended; err == nil {
		err = failed
	}
	return err
}

// each calls do with the part's rows before the first broken row.
func (p *part) each(do func(chain.Row, fact.Fact) error) error {
	<-p.done
	for i, f := range p.facts {
		if err := do(p.rows[i], f); err != nil {
			return err
		}
	}
	return p.err
}

// passOn cuts rows into parts and passes them on. If reading fails, it still passes on the
// rows that it has read.
func passOn(h chain.Head, rows iter.Seq2[chain.Row, error], parts chan<- *part, stop <-chan struct{}) (err error) {
	p := newPart(h)
	hand := func() (goOn bool) {
		go p.decode()
		select {
		case parts <- p:
			last := p.rows[len(p.rows)-1]
			p = newPart(last.Head())
			return true
		case <-stop:
			return false
		}
	}
	for r, failed := range rows {
		if err = failed; err != nil {
			break
		}
		if p.rows = append(p.rows, r); len(p.rows) == aheadRows && !hand() {
			return nil
		}
	}
	if len(p.rows) > 0 {
		hand()
	}
	return err
}

func newPart(after chain.Head) *part {
	return &part{after: after, rows: make([]chain.Row, 0, aheadRows), done: make(chan struct{})}
}

// decode checks the part's rows against the hash chain and decodes their facts.
func (p *part) decode() {
	defer close(p.done)
	var buf []byte
	h := p.after
	p.facts = make([]fact.Fact, 0, len(p.rows))
	for _, r := range p.rows {
		if buf, p.err = h.FollowedBy(r, buf); p.err != nil {
			return
		}
		h = r.Head()
		f, err := factOf(r)
		if p.err = err; err != nil {
			return
		}
		p.facts = append(p.facts, f)
	}
}
