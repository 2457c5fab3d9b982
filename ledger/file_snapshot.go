package ledger

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

// A ledger whose first rows were archived starts with a snapshot of every projection after the
// last archived row. A ledger.archived fact contains the hash of the snapshot, so the hash chain
// covers it. A fold of such a ledger starts with the snapshot instead of row 1.

// snapshotted lists the tables of a snapshot, in an order in which they can be filled.
var snapshotted = append(slices.Clone(projections), "archived")

// running lists tables that are derived from a snapshot's tables and filled after them.
// Triggers maintain state_counts; apply maintains the others.
var running = []string{"net_charges", "state_counts", "command_labels"}

// These queries select the parts of archived rows that stay in the table archived. They read the
// rows in the file and the rows that were archived earlier. Older archives kept less (no refund
// times, record IDs, NATS users or names) and must still verify.
const (
	leftOfRows         = `SELECT ` + leftBefore + leftRefunds + leftIDs + leftUsers + leftNames + leftAfter
	leftWithoutRefunds = `SELECT ` + leftBefore + leftIDs + leftUsers + leftNames + leftAfter
	leftWithoutIDs     = `SELECT ` + leftBefore + leftUsers + leftNames + leftAfter
	leftWithoutUsers   = `SELECT ` + leftBefore + leftNames + leftAfter
	leftWithoutNames   = `SELECT ` + leftBefore + leftAfter

	leftBefore = `seq, type, time, operation, hash, data FROM archived
	UNION ALL
	SELECT j.seq, j.type, j.time, j.operation, j.hash,
		CASE WHEN j.type = 'command.accepted' AND j.data -> '$.labels' IS NOT NULL THEN json_object('labels', j.data -> '$.labels')
		`
	leftRefunds = `WHEN j.type = 'order.refunded' THEN json_object('refunded_at', j.data ->> '$.refunded_at')
		`
	leftIDs = `WHEN j.type = 'ledger.recorded' THEN json_object('by', j.data ->> '$.by', 'reason', j.data ->> '$.reason',
			'user', coalesce(j.data ->> '$.user', ''), 'id', coalesce(j.data ->> '$.id', ''), 'corrects_seq', coalesce(j.data ->> '$.corrects_seq', 0))
		`
	leftUsers = `WHEN j.data ->> '$.by' <> '' AND j.data ->> '$.user' <> '' THEN
			json_object('by', j.data ->> '$.by', 'reason', coalesce(j.data ->> '$.reason', ''), 'user', j.data ->> '$.user')
		`
	leftNames = `WHEN j.data ->> '$.by' <> '' THEN json_object('by', j.data ->> '$.by', 'reason', coalesce(j.data ->> '$.reason', '')) `
	leftAfter = `ELSE '{}' END
	FROM journal j WHERE EXISTS (SELECT 1 FROM transfers t WHERE t.seq = j.seq)
		OR (j.type = 'command.accepted' AND j.data -> '$.labels' IS NOT NULL)
	ORDER BY seq`
)

// chunk is a part of a table's rows in a snapshot.
type chunk struct {
	table   string
	n       int64
	columns string
	rows    []byte // a JSON array of arrays
}

// snapshotChunk is the minimum size of a chunk before the next one starts, in bytes. The
// hash of a snapshot depends on it.
const snapshotChunk = 256 << 10

// snapshotOf cuts all tables, as they are after the journal's last row, into chunks and
// returns the hash of the chunks. left is leftOfRows, or its variant for an older archive.
func snapshotOf(ctx context.Context, q sqlite.Queryer, left string, yield func(chunk) error) (string, error) {
	sum := newSnapshotSum()
	for _, table := range snapshotted {
		query, columns, err := snapshotQuery(ctx, q, table)
		if err != nil {
			return "", err
		}
		if columns == "" {
			continue // the file predates the table, which would be empty
		}
		if table == "archived" {
			query = left
		}
		err = cut(ctx, q, query, chunk{table: table, columns: columns}, func(c chunk) error {
			sum.add(c)
			return yield(c)
		})
		if err != nil {
			return "", fmt.Errorf("take a snapshot of %s: %w", table, err)
		}
	}
	return sum.text(), nil
}

func snapshotQuery(ctx context.Context, q sqlite.Queryer, table string) (query, columns string, err error) {
	names, err := sqlite.Columns(ctx, q, table)
	if err != nil {
		return "", "", err
	}
	columns = strings.Join(names, ", ")
	return `SELECT ` + columns + ` FROM ` + table + ` ORDER BY ` + keyOf(names), columns, nil
}

func cut(ctx context.Context, q sqlite.Queryer, query string, c chunk, yield func(chunk) error) error {
	width := strings.Count(c.columns, ",") + 1
	values, into := make([]any, width), make([]any, width)
	for i := range values {
		into[i] = &values[i]
	}
	var text bytes.Buffer
	flush := func() error {
		text.WriteByte(']')
		c.n, c.rows = c.n+1, text.Bytes()
		err := yield(c)
		text.Reset()
		return err
	}
	err := sqlite.Each(sqlite.Query(ctx, q, query), func(s sqlite.Scanner) error {
		if err := s.Scan(into...); err != nil {
			return err
		}
		separator := byte(',')
		if text.Len() == 0 {
			separator = '['
		}
		text.WriteByte(separator)
		if err := writeValues(&text, values); err != nil {
			return err
		}
		if text.Len() < snapshotChunk {
			return nil
		}
		return flush()
	})
	if err == nil && text.Len() > 0 {
		err = flush()
	}
	return err
}

// writeValues writes a row as encoding/json would, in a third of the time.
func writeValues(text *bytes.Buffer, values []any) error {
	before := text.Len()
	for i, v := range values {
		separator := byte(',')
		if i == 0 {
			separator = '['
		}
		buf := append(text.AvailableBuffer(), separator)
		switch v := v.(type) {
		case nil:
			buf = append(buf, "null"...)
		case int64:
			buf = strconv.AppendInt(buf, v, 10)
		case string:
			if !chain.Plain(v) {
				text.Truncate(before)
				encode := json.NewEncoder(text)
				encode.SetEscapeHTML(false)
				return encode.Encode(values)
			}
			buf = append(append(append(buf, '"'), v...), '"')
		default:
			return fmt.Errorf("%T is not stored in a ledger", v)
		}
		text.Write(buf)
	}
	text.WriteString("]\n")
	return nil
}

type snapshotSum struct {
	sum hash.Hash
	buf []byte
}

func newSnapshotSum() *snapshotSum { return &snapshotSum{sum: sha256.New()} }

func (s *snapshotSum) add(c chunk) {
	s.buf = fact.AppendField(fact.AppendField(s.buf[:0], c.table), c.columns)
	s.sum.Write(fact.AppendField(s.buf, string(c.rows)))
}

func (s *snapshotSum) text() string { return hex.EncodeToString(s.sum.Sum(nil)) }

// beginBehind starts the fold after the last row of a finished file. That row becomes the base,
// with a snapshot of the file's tables. beginBehind copies the tables themselves. A verification
// loads the tables from the snapshot, and compares both.
func (f *fold) beginBehind(ctx context.Context, q sqlite.Queryer, path string) (*tables.Base, error) {
	b := &tables.Base{}
	err := q.QueryRowContext(ctx, `SELECT seq, hash, time FROM journal ORDER BY seq DESC LIMIT 1`).Scan(&b.Seq, &b.Hash, &b.Time)
	if err == nil {
		err = f.w.exec(`ATTACH ? AS archive`, immutable(path))
	}
	if err != nil {
		return nil, err
	}
	err = f.begin(func() (*tables.Base, error) {
		b.SnapshotHash, err = snapshotOf(ctx, q, leftOfRows, func(c chunk) (err error) {
			if c.table == "archived" { // not a table of the file: derived from its rows
				err = f.fill(c)
			}
			return errors.Join(err, f.put(c))
		})
		for _, table := range projections {
			_, columns, errColumns := snapshotQuery(ctx, q, table)
			if err = errors.Join(err, errColumns); err == nil && columns != "" {
				err = f.w.exec(`INSERT INTO ` + table + ` (` + columns + `) SELECT ` + columns + ` FROM archive.` + table)
			}
		}
		return b, err
	})
	return b, errors.Join(err, f.w.exec(`DETACH archive`))
}

// beginAs starts the fold where another file starts: with the first row, or with the same
// base and snapshot.
func (f *fold) beginAs(ctx context.Context, q sqlite.Queryer) error {
	b, err := tables.BaseOf(ctx, q)
	if b == nil || err != nil {
		return err
	}
	return f.begin(func() (*tables.Base, error) {
		err := sqlite.Each(sqlite.Query(ctx, q, `SELECT tbl, n, columns, rows FROM snapshot ORDER BY tbl, n`), func(s sqlite.Scanner) error {
			var c chunk
			var packed []byte
			if err := s.Scan(&c.table, &c.n, &c.columns, &packed); err != nil {
				return err
			}
			return f.w.exec(`INSERT INTO snapshot (tbl, n, columns, rows) VALUES (?, ?, ?, ?)`, c.table, c.n, c.columns, packed)
		})
		if err != nil {
			return nil, err
		}
		return b, f.load(b)
	})
}

// The function fill fills the tables of a snapshot and returns the base. After that, all derived
// tables are filled.
func (f *fold) begin(fill func() (*tables.Base, error)) error {
	return f.w.inTransaction(func() error {
		b, err := fill()
		if err == nil {
			err = errors.Join(f.bookAgain(), f.w.exec(chargedAgain), f.w.exec(netChargesAgain), f.w.exec(labelsAgain))
		}
		if err != nil {
			return err
		}
		f.w.head = b.Head
		return f.w.exec(`INSERT INTO base (one, seq, hash, time, snapshot_hash) VALUES (1, ?, ?, ?, ?)`, b.Seq, b.Hash, b.Time, b.SnapshotHash)
	})
}

func (f *fold) put(c chunk) error {
	var packed bytes.Buffer
	w, err := flate.NewWriter(&packed, flate.BestSpeed)
	if err != nil {
		return err
	}
	_, err = w.Write(c.rows)
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	return f.w.exec(`INSERT INTO snapshot (tbl, n, columns, rows) VALUES (?, ?, ?, ?)`, c.table, c.n, c.columns, packed.Bytes())
}

// Fills the tables of the snapshot and checks its hash. Other goroutines unpack chunks while
// earlier chunks are written.
func (f *fold) load(b *tables.Base) error {
	sum := newSnapshotSum()
	var ahead []func() (chunk, []any, error)
	take := func() error {
		c, values, err := ahead[0]()
		if ahead = ahead[1:]; err != nil {
			return err
		}
		sum.add(c)
		return f.store(c, values)
	}
	for _, table := range snapshotted {
		err := sqlite.Each(f.w.Query(`SELECT n, columns, rows FROM snapshot WHERE tbl = ? ORDER BY n`, table), func(s sqlite.Scanner) error {
			c := chunk{table: table}
			var packed sql.Null[[]byte]
			if err := s.Scan(&c.n, &c.columns, &packed); err != nil {
				return err
			}
			unpacked := sync.OnceValues(func() ([]any, error) { return c.unpack(packed.V) })
			go func() { _, _ = unpacked() }()
			ahead = append(ahead, func() (chunk, []any, error) { values, err := unpacked(); return c, values, err })
			if len(ahead) < aheadParts {
				return nil
			}
			return take()
		})
		for err == nil && len(ahead) > 0 {
			err = take()
		}
		if err != nil {
			return err
		}
	}
	if sum.text() != b.SnapshotHash {
		return &chain.BrokenError{Check: "snapshot", Detail: fmt.Sprintf("its hash is %s and the journal was begun with %s: it was changed", sum.text(), b.SnapshotHash)}
	}
	return nil
}

func (c *chunk) unpack(packed []byte) (values []any, err error) {
	if c.rows, err = io.ReadAll(flate.NewReader(bytes.NewReader(packed))); err == nil {
		values, err = c.values()
	}
	if err != nil {
		return nil, c.broken(err)
	}
	return values, nil
}

func (c *chunk) broken(err error) error {
	return &chain.BrokenError{Check: "snapshot", Detail: fmt.Sprintf("%s, part %d: %v", c.table, c.n, err)}
}

func (c *chunk) values() (values []any, err error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(c.rows))
	width := strings.Count(c.columns, ",") + 1
	for {
		v, err := d.ReadToken()
		if errors.Is(err, io.EOF) {
			return values, nil
		}
		if err != nil {
			return nil, err
		}
		if v.Kind() == ']' && d.StackDepth() == 1 && len(values)%width != 0 {
			return nil, fmt.Errorf("a row has not %d columns", width)
		}
		switch byte(v.Kind()) {
		case '[', ']':
		case 'n':
			values = append(values, nil)
		case '"':
			values = append(values, v.String())
		default:
			n, err := strconv.ParseInt(v.String(), 10, 64)
			if err != nil {
				return nil, err
			}
			values = append(values, n)
		}
	}
}

func (f *fold) fill(c chunk) error {
	values, err := c.values()
	if err != nil {
		return c.broken(err)
	}
	return f.store(c, values)
}

func (f *fold) store(c chunk, values []any) error {
	b := newBatch(c.table, c.columns, ``)
	b.args = values
	if err := f.w.store(&b, insertMost); err != nil {
		return c.broken(err)
	}
	return nil
}

// bookAgain fills transfers.booked_at, which older snapshots lack. The table archived has
// the time of every row that booked something.
func (f *fold) bookAgain() error {
	if old, err := sqlite.Found(f.w.QueryRow(`SELECT EXISTS (SELECT 1 FROM transfers WHERE booked_at = 0)`)); err != nil || !old {
		return err
	}
	trigger, err := sqlite.Value[string](f.w.QueryRow(`SELECT sql FROM sqlite_schema WHERE type = 'trigger' AND name = 'transfers_no_update'`))
	if err != nil {
		return err
	}
	return errors.Join(f.w.exec(`DROP TRIGGER transfers_no_update`), f.w.exec(bookedAgain), f.w.exec(trigger))
}

const bookedAgain = `UPDATE transfers SET booked_at = max(b.latest, coalesce((SELECT opened_at FROM binding), 0))
	FROM (SELECT seq, max(time) OVER (ORDER BY seq) AS latest FROM archived WHERE seq IN (SELECT seq FROM transfers)) b
	WHERE b.seq = transfers.seq`

// chargedAgain fills operations.charged_at, which older snapshots lack or set to the rows'
// times.
const chargedAgain = `UPDATE operations SET charged_at = first.booked_at
	FROM (SELECT operation, min(seq), booked_at FROM transfers WHERE kind = 'charge' OR kind = 'suspense' GROUP BY operation) first
	WHERE first.operation = operations.id AND charged_at IS NOT first.booked_at`

// netChargesAgain fills net_charges from the transfers of a snapshot. A snapshot does not
// contain net_charges, so that archives older than the table load too.
const netChargesAgain = `INSERT INTO net_charges (quarter, cents)
	SELECT CASE t.kind WHEN 'refund' THEN o.charged_at ELSE t.booked_at END / 900000000, sum(CASE t.kind WHEN 'refund' THEN -t.cents ELSE t.cents END)
	FROM transfers t JOIN operations o ON o.id = t.operation
	WHERE t.kind = 'charge' OR t.kind = 'suspense' OR t.kind = 'refund' GROUP BY 1`

// labelsAgain fills command_labels from the acceptances that a snapshot keeps.
const labelsAgain = `INSERT INTO command_labels (name, value, accepted_at, command_id)
	SELECT e.key, e.value, c.accepted_at, c.id FROM commands c JOIN archived a ON a.seq = c.accepted_seq JOIN json_each(a.data, '$.labels') e`

// An events stream may start after an archived row. A ledger that is rebuilt from such a stream
// starts with the snapshot of the state at that row. A copy of the snapshot is stored with the
// stream (docs/decisions/0011).

// Snapshot identifies the state of all projections after an archived row.
type Snapshot struct {
	chain.Head // the last row that the snapshot includes

	SnapshotHash string // the hash in ledger.archived
}

// Snapshot returns the snapshot after which the file's journal starts. It returns nil if the
// journal starts with the first row.
func (l *Ledger) Snapshot() *Snapshot {
	if l.base == nil {
		return nil
	}
	return &Snapshot{Head: l.base.Head, SnapshotHash: l.base.SnapshotHash}
}

// EventsBegin returns the sequence of the first row that the events stream must still have. It
// returns 1 if no event was removed.
func (l *Ledger) EventsBegin(ctx context.Context) (seq int64, err error) {
	columns, err := sqlite.Columns(ctx, l.read, "archives")
	if err != nil || !slices.Contains(columns, "events_begin") {
		return 1, err // the file predates the removal of events
	}
	err = l.read.QueryRowContext(ctx, `SELECT max(1, coalesce(max(events_begin), 1)) FROM archives`).Scan(&seq)
	return seq, err
}

// VouchedSnapshots lists the snapshots in published ledger.archived events, newest last.
func VouchedSnapshots(events iter.Seq2[[]byte, error]) (all []Snapshot, err error) {
	for r, err := range rowsOf(events) {
		if err != nil {
			return nil, err
		}
		f, err := fact.Decode(r.Type, []byte(r.Data))
		if err != nil {
			return nil, err
		}
		if f, ok := f.(fact.LedgerArchived); ok {
			all = append(all, Snapshot{Head: chain.Head{Seq: f.LastSeq, Hash: f.LastHash}, SnapshotHash: f.SnapshotHash})
		}
	}
	return all, nil
}

// A written snapshot is compressed with gzip. It starts with a line of JSON that identifies
// it. For each part of a table a line of JSON follows, then the part's rows as a JSON array
// of arrays, then a newline.
const snapshotFormat = "perennial snapshot 1"

type snapshotLine struct {
	Format string `json:"format"`
	chain.Head
	Time         int64  `json:"time"` // of that row, in microseconds since 1970 UTC
	SnapshotHash string `json:"snapshot_hash"`
}

type partLine struct {
	Table   string `json:"table"`
	N       int64  `json:"n"`
	Columns string `json:"columns"`
	Bytes   int    `json:"bytes"` // length of the rows
}

// mostPart limits the declared size of a part, in bytes.
const mostPart = 256 << 20

// WriteSnapshot writes the snapshot after which the file's journal starts. A ledger can be
// built from this snapshot and the rows after it.
func (l *Ledger) WriteSnapshot(ctx context.Context, to io.Writer) error {
	if l.base == nil {
		return errors.New("the ledger begins with its first row: there is no snapshot to write")
	}
	packed := gzip.NewWriter(to)
	lines := json.NewEncoder(packed)
	err := lines.Encode(snapshotLine{Format: snapshotFormat, Head: l.base.Head, Time: l.base.Time, SnapshotHash: l.base.SnapshotHash})
	if err != nil {
		return err
	}
	for _, table := range snapshotted {
		err := sqlite.Each(l.query(ctx, `SELECT n, columns, rows FROM snapshot WHERE tbl = ? ORDER BY n`, table), func(s sqlite.Scanner) error {
			c := chunk{table: table}
			if err := s.Scan(&c.n, &c.columns, &c.rows); err != nil {
				return err
			}
			if c.rows, err = io.ReadAll(flate.NewReader(bytes.NewReader(c.rows))); err != nil {
				return &chain.BrokenError{Check: "snapshot", Detail: fmt.Sprintf("%s, part %d: %v", table, c.n, err)}
			}
			err := lines.Encode(partLine{Table: c.table, N: c.n, Columns: c.columns, Bytes: len(c.rows)})
			_, writeErr := packed.Write(append(c.rows, '\n'))
			return errors.Join(err, writeErr)
		})
		if err != nil {
			return fmt.Errorf("write the snapshot of %s: %w", table, err)
		}
	}
	return packed.Close()
}

// CheckSnapshot reads a written snapshot to its end and checks that it is the snapshot want.
func CheckSnapshot(from io.Reader, want Snapshot) error {
	_, err := readSnapshot(from, want, func(chunk) error { return nil })
	return err
}

// readSnapshot yields the parts of a written snapshot. At the end it checks that they match their
// hash and that the snapshot is want.
func readSnapshot(from io.Reader, want Snapshot, yield func(chunk) error) (*tables.Base, error) {
	broken := func(err error) error {
		return &chain.BrokenError{Check: "snapshot", Seq: want.Seq, Detail: err.Error()}
	}
	packed, err := gzip.NewReader(from)
	if err != nil {
		return nil, broken(err)
	}
	in := bufio.NewReader(packed)
	var first snapshotLine
	if err := readLine(in, &first); err != nil {
		return nil, broken(err)
	}
	if first.Format != snapshotFormat {
		return nil, broken(fmt.Errorf("its format is %q and this program knows %q", first.Format, snapshotFormat))
	}
	sum := newSnapshotSum()
	for {
		c, err := readPart(in)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, broken(err)
		}
		sum.add(c)
		if err := yield(c); err != nil {
			return nil, err
		}
	}
	b := &tables.Base{Head: first.Head, Time: first.Time, SnapshotHash: sum.text()}
	if got := (Snapshot{Head: b.Head, SnapshotHash: b.SnapshotHash}); got != want {
		return nil, broken(fmt.Errorf("it is %+v and %+v is wanted: it was changed", got, want))
	}
	return b, nil
}

// readPart reads the next part of a written snapshot. It returns io.EOF after the last part.
func readPart(in *bufio.Reader) (c chunk, err error) {
	var line partLine
	if err := readLine(in, &line); err != nil {
		return c, err
	}
	if line.Bytes < 0 || line.Bytes > mostPart {
		return c, fmt.Errorf("a part of %s is said to have %d bytes", line.Table, line.Bytes)
	}
	c = chunk{table: line.Table, n: line.N, columns: line.Columns, rows: make([]byte, line.Bytes+1)}
	if _, err := io.ReadFull(in, c.rows); err != nil {
		return c, fmt.Errorf("a part of %s ends early: %w", line.Table, io.ErrUnexpectedEOF)
	}
	c.rows = c.rows[:line.Bytes]
	return c, nil
}

func readLine(in *bufio.Reader, into any) error {
	text, err := in.ReadBytes('\n')
	if err != nil {
		if len(text) > 0 {
			return io.ErrUnexpectedEOF
		}
		return err
	}
	return json.Unmarshal(text, into)
}

// beginFrom starts the fold with a written snapshot. It checks the hash before any part fills
// a table.
func (f *fold) beginFrom(from io.Reader, want Snapshot) error {
	return f.begin(func() (*tables.Base, error) {
		b, err := readSnapshot(from, want, f.put)
		if err != nil {
			return nil, err
		}
		return b, f.load(b)
	})
}
