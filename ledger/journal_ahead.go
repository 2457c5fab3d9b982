// Reading ahead: journal rows are read, checked and decoded on other goroutines while the
// rows before them are applied.

package ledger

import (
	"iter"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
)

// part is consecutive rows, each checked and decoded as one that continues the chain.
type part struct {
	after chain.Head
	rows  []chain.Row
	facts []fact.Fact   // of the rows before the first that is broken
	err   error         // of that row
	done  chan struct{} // closed when the others are set
}

// aheadRows is how many rows are passed on at once, and aheadParts how many such parts may
// wait.
const (
	aheadRows  = 256
	aheadParts = 4
)

// readAhead calls do with the rows after a head, in order. It returns the first error of a
// row, after passing on all rows before it, or do's error. It then stops reading rows.
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

// each calls do with the part's rows before the first broken one.
func (p *part) each(do func(chain.Row, fact.Fact) error) error {
	<-p.done
	for i, f := range p.facts {
		if err := do(p.rows[i], f); err != nil {
			return err
		}
	}
	return p.err
}

// passOn cuts rows into parts, and passes on those it could read even when it returns an
// error.
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

// decode checks the part's rows against the chain and decodes their facts.
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
