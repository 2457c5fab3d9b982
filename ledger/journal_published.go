package ledger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	jsonv1 "github.com/go-json-experiment/json/v1" // encoding/json, in a third of the time

	"perennial/ledger/chain"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

// ReadEvent is the inverse of Row.Event: it returns the journal row of a published event,
// byte for byte. If the content of the row does not match its hash, it returns a
// *chain.BrokenError.
func ReadEvent(event []byte) (chain.Row, error) {
	var e chain.CloudEvent
	if err := jsonv1.Unmarshal(event, &e); err != nil {
		return chain.Row{}, fmt.Errorf("an event cannot be read: %w", err)
	}
	const mark = `"ledger":{"seq":`
	at := bytes.LastIndex(e.Data, []byte(mark))
	if at < 1 {
		return chain.Row{}, fmt.Errorf("event %q carries no place in a journal: it was not published by this program", e.ID)
	}
	var data struct {
		Ledger chain.Place `json:"ledger"`
	}
	if err := jsonv1.Unmarshal(append([]byte{'{'}, e.Data[at:]...), &data); err != nil {
		return chain.Row{}, fmt.Errorf("event %q: its place in the journal cannot be read: %w", e.ID, err)
	}
	r := chain.Row{
		Seq: data.Ledger.Seq, Type: strings.TrimSuffix(strings.TrimPrefix(e.Type, "perennial."), ".v1"), Time: sqlite.Micros(e.Time), Operation: e.Subject,
		Data: strings.TrimSuffix(string(e.Data[:at]), ",") + "}", PrevHash: data.Ledger.PrevHash, Hash: data.Ledger.Hash,
	}
	if _, hash := chain.Hash(nil, r); hash != r.Hash {
		return r, &chain.BrokenError{Check: "events", Seq: r.Seq, Detail: "the published event's content does not give its hash: the event was changed"}
	}
	return r, nil
}

func rowsOf(events iter.Seq2[[]byte, error]) iter.Seq2[chain.Row, error] {
	return func(yield func(chain.Row, error) bool) {
		for event, err := range events {
			var r chain.Row
			if err == nil {
				r, err = ReadEvent(event)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// Against is the result of comparing the journal with the published events.
type Against struct {
	Published   int64 `json:"published"`   // rows that are on the stream unchanged
	Unpublished int64 `json:"unpublished"` // later rows that are not published yet
	// Removed is the number of first rows that were removed from the stream, according to
	// ledger.bounded.
	Removed int64 `json:"removed,omitempty"`
	// NotHere is the number of rows on the stream after the ledger's last row. It is set only for
	// a ledger that follows the stream, because such a ledger may fold these rows later.
	NotHere int64 `json:"not_here,omitempty"`

	last int64 // the last row found on the stream
}

const againstPage = 512

// VerifyAgainst compares the journal with the events that were published from it. It starts with
// the first event that the stream must have. Verify shows that a file agrees with itself; only
// this comparison shows that the file is the published history. VerifyAgainst returns a
// *chain.BrokenError for the first row that differs. Events of archived rows must form a hash
// chain that ends with the last archived row. The chain proves that each row was published as it
// was archived, without reading the archive.
func (l *Ledger) VerifyAgainst(ctx context.Context, events iter.Seq2[[]byte, error]) (a Against, err error) {
	var page []chain.Row
	var before chain.Row
	for published, err := range rowsOf(events) {
		if err != nil {
			return a, err
		}
		if before.Seq == 0 {
			if err := l.begins(ctx, published, &a); err != nil {
				return a, err
			}
		}
		seq := a.last + a.NotHere + 1
		if published.Seq != seq {
			return a, &chain.BrokenError{Check: "events", Seq: seq, Detail: fmt.Sprintf("no event was published of it: event %d is followed by event %d", a.last, published.Seq)}
		}
		behind := a.NotHere > 0
		switch {
		case behind:
		case l.archived(seq):
			err = l.followsArchived(published, before)
		default:
			page, behind, err = l.isPublished(ctx, published, page)
		}
		if behind {
			err = follows(published, before)
		}
		if err != nil {
			return a, err
		}
		before = published
		if behind {
			a.NotHere++
			continue
		}
		a.last = seq
		a.Published++
	}
	if err := l.holdsArchived(a.last); err != nil {
		return a, err
	}
	head, _, err := l.Head(ctx)
	a.Unpublished = head - a.last
	return a, err
}

// holdsArchived refuses a stream that ends before the last archived row. An empty stream passes,
// so callers also compare the stream with the last published row (Published).
func (l *Ledger) holdsArchived(last int64) error {
	if last > 0 && l.archived(last) && last < l.base.Seq {
		return &chain.BrokenError{Check: "events", Seq: last + 1, Detail: "the row was archived, and the stream ends before it: its end was removed"}
	}
	return nil
}

// Checks the first event of the stream. The first event must be row 1, unless a ledger.bounded
// fact allows a later row to be first. If a fact does, any row up to that later row may be first,
// because the hash chain links it to the last archived row, whose hash is known.
func (l *Ledger) begins(ctx context.Context, first chain.Row, a *Against) error {
	latest, err := l.EventsBegin(ctx)
	if err != nil {
		return err
	}
	if first.Seq > latest {
		return &chain.BrokenError{Check: "events", Seq: latest, Detail: fmt.Sprintf(
			"no event was published of it, or it was removed: the stream begins with event %d, and by this journal it may begin with %d at the latest (removed by another program, or the file is an older copy)", first.Seq, latest)}
	}
	a.Removed, a.last = first.Seq-1, first.Seq-1
	return nil
}

// isPublished compares an event with the journal row of the same sequence. page contains
// rows that were read ahead. isPublished returns the rows that are left. notHere says that
// the ledger follows the stream and has not folded the row yet.
func (l *Ledger) isPublished(ctx context.Context, published chain.Row, page []chain.Row) (left []chain.Row, notHere bool, err error) {
	if len(page) == 0 {
		if page, err = l.Rows(ctx, published.Seq-1, againstPage); err != nil || len(page) == 0 && l.follows {
			return nil, err == nil, err
		}
	}
	if len(page) == 0 {
		return nil, false, &chain.BrokenError{Check: "events", Seq: published.Seq, Detail: "it was published and the journal ends before it: its end was removed, or the file is an older copy"}
	}
	if own := page[0]; own.Seq != published.Seq || own.Hash != published.Hash {
		return nil, false, &chain.BrokenError{Check: "events", Seq: published.Seq, Detail: fmt.Sprintf("its hash is %s and %s was published: history was rewritten from here on", own.Hash, published.Hash)}
	}
	return page[1:], false, nil
}

// Checks that an event follows the previous one. The first event of the stream may follow any
// row, unless it is row 1.
func follows(r, before chain.Row) error {
	if r.PrevHash == before.Hash || before.Seq == 0 && (r.Seq > 1 || r.PrevHash == chain.Genesis) {
		return nil
	}
	return &chain.BrokenError{Check: "events", Seq: r.Seq, Detail: "the event does not follow the one before it: what was published is not one history"}
}

// followsArchived checks that the event of an archived row follows the previous event. It
// also checks that the last archived row was published with the hash after which the journal
// starts.
func (l *Ledger) followsArchived(r, before chain.Row) error {
	if err := follows(r, before); err != nil {
		return err
	}
	if r.Seq == l.base.Seq && r.Hash != l.base.Hash {
		return &chain.BrokenError{Check: "events", Seq: r.Seq, Detail: fmt.Sprintf("it was archived with the hash %s and %s was published: history was rewritten up to here", l.base.Hash, r.Hash)}
	}
	return nil
}

// notBefore yields the rows after a head. If rows starts with the head itself, notBefore
// first checks that this row was published unchanged.
func notBefore(h chain.Head, rows iter.Seq2[chain.Row, error]) iter.Seq2[chain.Row, error] {
	return func(yield func(chain.Row, error) bool) {
		for r, err := range rows {
			switch {
			case err != nil:
			case r.Seq < h.Seq:
				continue
			case r.Seq == h.Seq && r.Hash == h.Hash:
				continue
			case r.Seq == h.Seq:
				err = &chain.BrokenError{Check: "events", Seq: r.Seq, Detail: "another row was published here: the backup is not of the account, or the stream, that is configured"}
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

var errNothingPublished = errors.New("the events stream holds no event: there is nothing to restore from")

// firmAfter is how long the stream must have stored a row before a power cut can no longer
// explain its loss. NATS syncs at least every two minutes.
const firmAfter = 10 * time.Minute

// Published is the last journal row that is known to be stored on the events stream.
type Published struct {
	chain.Head // acknowledged by the stream; Seq is 0 if nothing was

	// FirmSeq is the last row that the stream acknowledged at least ten minutes before Head, or
	// before a clean stop.
	FirmSeq int64
}

// Published reads how much of the journal was published.
func (l *Ledger) Published(ctx context.Context) (p Published, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT seq, hash, firm_seq FROM published`).Scan(&p.Seq, &p.Hash, &p.FirmSeq)
	return p, sqlite.Optional(err)
}

// NotePublished records that the events stream has acknowledged the journal up to a row. stopped
// means that the runner is stopping cleanly, so that no crash can lose the row. The recorded row
// only moves forward.
func (l *Ledger) NotePublished(ctx context.Context, seq int64, stopped bool) error {
	noted, err := l.Published(ctx)
	if err != nil || seq < noted.Seq || seq == noted.Seq && (!stopped || noted.FirmSeq == seq) {
		return err
	}
	row, err := l.Row(ctx, seq)
	if err != nil {
		return fmt.Errorf("note that row %d was published: %w", seq, err)
	}
	return l.Write(ctx, func(tx *Tx) error {
		return tx.exec(`INSERT INTO published (one, seq, hash, firm_seq, pending_seq, pending_at) VALUES (1, ?1, ?2, CASE WHEN ?5 THEN ?1 ELSE 0 END, ?1, ?3)
			ON CONFLICT (one) DO UPDATE SET seq = excluded.seq, hash = excluded.hash,
			firm_seq = CASE WHEN ?5 THEN excluded.seq WHEN pending_at <= ?4 THEN pending_seq ELSE firm_seq END,
			pending_seq = CASE WHEN ?5 OR pending_at <= ?4 THEN excluded.seq ELSE pending_seq END,
			pending_at = CASE WHEN ?5 OR pending_at <= ?4 THEN excluded.pending_at ELSE pending_at END
			WHERE seq <= excluded.seq`, seq, row.Hash, tx.now, tx.now-int64(firmAfter/time.Microsecond), stopped)
	})
}

// checkNote compares the last published row (Published) with the journal. It detects if rows up
// to the last published row were rewritten or removed.
func checkNote(ctx context.Context, q sqlite.Queryer, b *tables.Base, h chain.Head) error {
	var p, own chain.Head
	err := q.QueryRowContext(ctx, `SELECT p.seq, p.hash, coalesce(j.seq, 0), coalesce(j.hash, '') FROM published p
		LEFT JOIN journal j ON j.seq = p.seq`).Scan(&p.Seq, &p.Hash, &own.Seq, &own.Hash)
	if err != nil {
		return sqlite.Optional(err)
	}
	if b != nil && p.Seq == b.Seq {
		own = b.Head
	}
	switch {
	case p.Seq > h.Seq:
		return &chain.BrokenError{Check: "published", Seq: p.Seq, Detail: fmt.Sprintf("it was published, and the journal ends with row %d: its end was removed", h.Seq)}
	case own.Seq > 0 && own.Hash != p.Hash:
		return &chain.BrokenError{Check: "published", Seq: p.Seq, Detail: fmt.Sprintf("its hash is %s and it was published with %s: history was rewritten at or before this row", own.Hash, p.Hash)}
	}
	return nil
}

// Expect compares the journal with heads that are kept elsewhere. It returns a
// *chain.BrokenError for a different or missing row. It reads an archived row from one of
// files, or from the archive next to the ledger.
func (l *Ledger) Expect(ctx context.Context, heads []chain.Head, files ...string) (err error) {
	archives, err := openArchives(ctx, l.clock, files)
	defer func() {
		for _, a := range archives {
			err = errors.Join(err, a.Close())
		}
	}()
	if err != nil {
		return err
	}
	for _, h := range heads {
		hash, err := l.hashAt(ctx, h.Seq, archives)
		switch {
		case errors.Is(err, ErrNotFound):
			return &chain.BrokenError{Check: "head", Seq: h.Seq, Detail: "it is expected and the journal ends before it: its end was removed, or the file is an older copy"}
		case err != nil:
			return err
		case hash != h.Hash:
			return &chain.BrokenError{Check: "head", Seq: h.Seq, Detail: fmt.Sprintf("its hash is %s and %s is expected: history was rewritten at or before this row", hash, h.Hash)}
		}
	}
	return nil
}

func (l *Ledger) hashAt(ctx context.Context, seq int64, archives []*Ledger) (string, error) {
	if l.base != nil && seq == l.base.Seq {
		return l.base.Hash, nil
	}
	at := l
	for _, a := range archives {
		if l.archived(seq) && !a.archived(seq) && seq <= a.tail.head.Seq {
			at = a
			break
		}
	}
	row, err := at.Row(ctx, seq)
	return row.Hash, err
}
