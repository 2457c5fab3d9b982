// The postings of the books.

package tables

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	"perennial/ledger/failpoint"
	"perennial/ledger/sqlite"
)

// Posting is one side of a double entry, as in the view v_postings. The postings of a fact
// sum to zero.
type Posting struct {
	Seq         int64     `json:"seq"`
	Time        time.Time `json:"time"`
	Kind        string    `json:"kind"`
	Account     string    `json:"account"`
	AmountCents int64     `json:"amount_cents"`
	Operation   string    `json:"operation_id"`
	OrderNo     string    `json:"order_no"`
	ProxyID     string    `json:"proxy_id"`
	Hand
}

// Hand says who booked an entry by hand, and why. It is empty for entries that follow from
// the provider's replies. User is the NATS user who asked for it (see UserOf). CorrectsSeq
// is the row that the entry takes back or corrects.
type Hand struct {
	By          string `json:"by,omitempty"`
	Reason      string `json:"reason,omitempty"`
	User        string `json:"user,omitempty"`
	CorrectsSeq int64  `json:"corrects_seq,omitempty"`
}

// handOf selects the data of a posting's fact if an operator booked it, otherwise "".
const handOf = `coalesce((SELECT j.data FROM journal j WHERE j.seq = v.seq AND j.data ->> '$.by' <> ''),
	(SELECT a.data FROM archived a WHERE a.seq = v.seq AND a.data ->> '$.by' <> ''), '')`

// Postings returns what EachPosting yields.
func (l *Money) Postings(ctx context.Context, from int64, limit int) (all []Posting, err error) {
	_, err = l.EachPosting(ctx, from, limit, func(p Posting) error {
		all = append(all, p)
		return nil
	})
	return all, err
}

// EachPosting calls yield for up to limit postings, starting at a journal sequence. All
// postings of a fact stay together, even if the first fact alone exceeds limit. next is the
// sequence to continue with; 0 at the end.
func (l *Money) EachPosting(ctx context.Context, from int64, limit int, yield func(Posting) error) (next int64, err error) {
	n := 0
	var ofFact []Posting
	hand := func() error {
		if n > 0 && n+len(ofFact) > limit {
			next = ofFact[0].Seq
			return sqlite.ErrEnough
		}
		n += len(ofFact)
		for _, p := range ofFact {
			if err := yield(p); err != nil {
				return err
			}
		}
		ofFact = ofFact[:0]
		return nil
	}
	err = sqlite.Each(l.query(ctx, `SELECT `+postingColumns+` FROM v_postings v WHERE seq >= ? ORDER BY seq, n, amount_cents DESC`, from), func(s sqlite.Scanner) error {
		p, err := scanPosting(s)
		if err == nil && len(ofFact) > 0 && ofFact[0].Seq != p.Seq {
			err = hand()
		}
		ofFact = append(ofFact, p)
		return err
	})
	if err == nil {
		err = hand()
	}
	if errors.Is(err, sqlite.ErrEnough) {
		err = nil
	}
	return next, err
}

// postingColumns are the columns of v_postings v that scanPosting reads.
const postingColumns = `seq, time, kind, account, amount_cents, operation, order_no, proxy_id, ` + handOf

func scanPosting(s sqlite.Scanner) (p Posting, err error) {
	var at int64
	var hand string
	err = s.Scan(&p.Seq, &at, &p.Kind, &p.Account, &p.AmountCents, &p.Operation, &p.OrderNo, &p.ProxyID, &hand)
	if err == nil && hand != "" {
		err = json.Unmarshal([]byte(hand), &p.Hand)
	}
	p.Time = sqlite.FromMicros(at)
	return p, err
}

// Kinds are the kinds of ledger entries.
var Kinds = []string{"charge", "refund", "suspense", "resolution", "funding", "external"}

// PostingsBefore lists the postings of up to limit rows before a journal sequence, newest
// first. kind filters by kind of entry; "" is any. A sequence of 0 starts with the newest
// row. next is where the next page starts; 0 at the end.
func (l *Money) PostingsBefore(ctx context.Context, kind string, before int64, limit int) (all []Posting, next int64, err error) {
	if before <= 0 {
		before = 1 << 62
	}
	query := `SELECT DISTINCT seq FROM transfers WHERE seq < ?2 AND (?1 = '' OR kind = +?1) ORDER BY seq DESC LIMIT +?3`
	if kind != "" && kind != "charge" {
		query = `SELECT DISTINCT seq FROM transfers WHERE kind = +?1 AND kind <> 'charge' AND seq < ?2 ORDER BY seq DESC LIMIT +?3`
	}
	seqs, err := sqlite.Collect(l.query(ctx, query, kind, before, limit+1), func(s sqlite.Scanner) (seq int64, err error) {
		err = s.Scan(&seq)
		return seq, err
	})
	if err != nil {
		return nil, 0, err
	}
	if len(seqs) > limit {
		seqs = seqs[:limit]
		next = seqs[limit-1]
	}
	all, err = l.PostingsOf(ctx, seqs)
	if kind != "" {
		all = slices.DeleteFunc(all, func(p Posting) bool { return p.Kind != kind })
	}
	return all, next, err
}

// WalletsAfter returns the ledger's wallet balance, in cents, after each of the given rows.
// The rows must be in descending order. It looks through at most the newest LookedMost
// entries and leaves out older rows.
func (l *Money) WalletsAfter(ctx context.Context, seqs []int64) (map[int64]int64, error) {
	tx, err := l.read.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	now, err := balanceOf(ctx, tx, "")
	if err != nil {
		return nil, err
	}
	wallet, after, left, above := now.WalletCents, map[int64]int64{}, failpoint.Size(ctx, "list.looked", LookedMost), int64(math.MaxInt64)
	for _, seq := range seqs {
		var moved, looked int64
		err := tx.QueryRowContext(ctx, `SELECT coalesce(sum(CASE WHEN debit = 'wallet' THEN cents WHEN credit = 'wallet' THEN -cents END), 0), count(*)
			FROM (SELECT debit, credit, cents FROM transfers WHERE seq > ? AND seq <= ? LIMIT +?)`, seq, above, left+1).Scan(&moved, &looked)
		if left -= looked; err != nil || left < 0 {
			return after, err
		}
		wallet, above = wallet-moved, seq
		after[seq] = wallet
	}
	return after, nil
}

// KindTotal is the sum of the entries of one kind from one ledger account to another.
type KindTotal struct {
	Debit, Credit string
	Cents         int64
}

// TotalsOf sums the entries of a kind.
func (l *Money) TotalsOf(ctx context.Context, kind string) ([]KindTotal, error) {
	return sqlite.Collect(l.query(ctx, `SELECT debit, credit, cents FROM totals WHERE kind = ? ORDER BY debit, credit`, kind), func(s sqlite.Scanner) (t KindTotal, err error) {
		err = s.Scan(&t.Debit, &t.Credit, &t.Cents)
		return t, err
	})
}

// PostingsOf lists the postings of the given journal rows, in the order of seqs.
func (l *Money) PostingsOf(ctx context.Context, seqs []int64) (all []Posting, err error) {
	for _, seq := range seqs {
		err := sqlite.Each(l.query(ctx, `SELECT `+postingColumns+` FROM v_postings v WHERE seq = ? ORDER BY n, amount_cents DESC`, seq), func(s sqlite.Scanner) error {
			p, err := scanPosting(s)
			all = append(all, p)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Corrects returns the row that the entry takes back or corrects, or "".
func (h Hand) Corrects() string {
	if h.CorrectsSeq == 0 {
		return ""
	}
	return strconv.FormatInt(h.CorrectsSeq, 10)
}
