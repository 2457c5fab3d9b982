package chain

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

// Genesis is the prev_hash of the first row.
var Genesis = strings.Repeat("0", sha256.Size*2)

// Row is one journal row as stored and hashed.
type Row struct {
	Seq       int64
	Type      string
	Time      int64 // microseconds since 1970 UTC
	Operation string
	Data      string
	PrevHash  string
	Hash      string
}

// Head returns the row's position.
func (r Row) Head() Head { return Head{Seq: r.Seq, Hash: r.Hash} }

// Instant returns the row's time in UTC.
func (r Row) Instant() time.Time { return sqlite.FromMicros(r.Time) }

// Hash returns the SHA-256 of the row in hex. It overwrites buf and returns it for reuse. Every
// text has a length prefix, so that no two different rows have the same encoding.
func Hash(buf []byte, r Row) ([]byte, string) {
	buf = buf[:0]
	buf = fact.AppendField(buf, r.PrevHash)
	buf = binary.BigEndian.AppendUint64(buf, uint64(r.Seq))
	buf = fact.AppendField(buf, r.Type)
	buf = binary.BigEndian.AppendUint64(buf, uint64(r.Time))
	buf = fact.AppendField(buf, r.Operation)
	buf = fact.AppendField(buf, r.Data)
	sum := sha256.Sum256(buf)
	var text [2 * sha256.Size]byte
	hex.Encode(text[:], sum[:])
	return buf, string(text[:])
}

// CloudEvent is the event of one fact: CloudEvents 1.0 in structured JSON.
type CloudEvent struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            string          `json:"type"`
	Subject         string          `json:"subject,omitempty"`
	Time            time.Time       `json:"time"`
	DataContentType string          `json:"datacontenttype"`
	DataSchema      string          `json:"dataschema"`
	Traceparent     string          `json:"traceparent,omitempty"`
	Tracestate      string          `json:"tracestate,omitempty"`
	Data            json.RawMessage `json:"data"`
}

// Place is the position of an event in its journal. Every event carries it as data.ledger,
// so that auditors can prove that history was rewritten.
type Place struct {
	Seq      int64  `json:"seq" doc:"The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream."`
	PrevHash string `json:"prev_hash" doc:"The hash of the previous row; 64 zeros in the first row."`
	Hash     string `json:"hash" doc:"The row's hash."`
}

// Event returns the row's CloudEvent. Its data is the journal's data, byte for byte, with a
// Place added at the end as "ledger".
func (r Row) Event(account string) ([]byte, error) {
	return r.AppendEvent(make([]byte, 0, len(r.Data)+2*len(account)+512), account)
}

// AppendEvent appends the row's CloudEvent to buf (see Event). It writes JSON by hand,
// because encoding/json would scan and copy the data once more for every event.
func (r Row) AppendEvent(buf []byte, account string) ([]byte, error) {
	buf = append(buf, `{"specversion":"1.0","id":`...)
	var err error
	if buf, err = appendString(buf, r.eventID(account)); err != nil {
		return nil, err
	}
	buf = append(buf, `,"source":`...)
	if buf, err = appendString(buf, "perennial/"+account); err != nil {
		return nil, err
	}
	buf = append(buf, `,"type":`...)
	if buf, err = appendString(buf, "perennial."+r.Type+".v1"); err != nil {
		return nil, err
	}
	if r.Operation != "" {
		buf = append(buf, `,"subject":`...)
		if buf, err = appendString(buf, r.Operation); err != nil {
			return nil, err
		}
	}
	buf = append(buf, `,"time":"`...)
	buf = r.Instant().AppendFormat(buf, "2006-01-02T15:04:05.000000Z")
	buf = append(buf, `","datacontenttype":"application/json","dataschema":`...)
	if buf, err = appendString(buf, SchemaID(r.Type)); err != nil {
		return nil, err
	}
	if buf, err = r.appendTrace(buf); err != nil {
		return nil, err
	}
	buf = append(buf, `,"data":`...)
	return append(r.appendData(buf), '}'), nil
}

// Trace returns the trace context of the row's command. It returns the zero Trace if there is
// none.
func (r Row) Trace() (fact.Trace, error) {
	if !strings.Contains(r.Data, `"traceparent":"`) {
		return fact.Trace{}, nil
	}
	var t fact.Trace
	err := json.Unmarshal([]byte(r.Data), &t)
	return t, err
}

func (r Row) appendTrace(buf []byte) ([]byte, error) {
	t, err := r.Trace()
	if err != nil || t.Traceparent == "" {
		return buf, err
	}
	buf = append(buf, `,"traceparent":`...)
	if buf, err = appendString(buf, t.Traceparent); err != nil || t.Tracestate == "" {
		return buf, err
	}
	return appendString(append(buf, `,"tracestate":`...), t.Tracestate)
}

// SchemaID returns the schema ID of an event type or of a kind of command.
func SchemaID(name string) string { return "urn:perennial:schema:" + name + ":v1" }

// eventID returns the event's ID. Each publication of the fact has the same ID. A different
// fact with the same sequence, after a restore, has another ID.
func (r Row) eventID(account string) string {
	return account + "/" + r.Hash[:min(len(r.Hash), eventHash)] + "/" + strconv.FormatInt(r.Seq, 10)
}

const eventHash = 16

func (r Row) appendData(buf []byte) []byte {
	buf = append(buf, strings.TrimSuffix(r.Data, "}")...)
	if r.Data != "{}" {
		buf = append(buf, ',')
	}
	buf = append(buf, `"ledger":{"seq":`...)
	buf = strconv.AppendInt(buf, r.Seq, 10)
	buf = append(append(buf, `,"prev_hash":"`...), r.PrevHash...)
	buf = append(append(buf, `","hash":"`...), r.Hash...)
	return append(buf, `"}}`...)
}

// appendString quotes s as JSON. IDs and types are nearly always plain text that needs no
// escaping.
func appendString(buf []byte, s string) ([]byte, error) {
	if Plain(s) {
		return append(append(append(buf, '"'), s...), '"'), nil
	}
	quoted, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return append(buf, quoted...), nil
}

// Plain reports whether encoding/json would write the text unchanged.
func Plain(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ', c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}

// Columns are the columns that Scan reads.
const Columns = `seq, type, time, operation, data, prev_hash, hash`

// Scan reads a row by its Columns.
var Scan = sqlite.Into(func(r *Row) []any {
	return []any{&r.Seq, &r.Type, &r.Time, &r.Operation, &r.Data, &r.PrevHash, &r.Hash}
})

// LastRowQuery selects the position of the journal's last row; LastRow reads it.
const LastRowQuery = `SELECT seq, hash FROM journal ORDER BY seq DESC LIMIT 1`

// LastRow reads the row of LastRowQuery. For an empty journal it returns 0 and Genesis.
func LastRow(row sqlite.Scanner) (Head, error) {
	h := Head{Hash: Genesis}
	err := row.Scan(&h.Seq, &h.Hash)
	return h, sqlite.Optional(err)
}

// Head is a position in the journal.
type Head struct {
	Seq  int64  `json:"seq" doc:"The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream."`
	Hash string `json:"hash" doc:"The row's hash."`
}

// String returns SEQ:HASH, the form in which backups and statements show a head and in which
// it is passed to `ledger verify --expect`.
func (h Head) String() string { return strconv.FormatInt(h.Seq, 10) + ":" + h.Hash }

// ParseHead is the inverse of Head.String. It returns an error for any other text.
func ParseHead(text string) (h Head, err error) {
	number, hash, _ := strings.Cut(text, ":")
	h.Hash = hash
	h.Seq, err = strconv.ParseInt(number, 10, 64)
	sum, notHex := hex.DecodeString(hash)
	if err != nil || notHex != nil || h.Seq < 1 || len(sum) != sha256.Size || hash != strings.ToLower(hash) {
		return Head{}, fmt.Errorf("%q is no head of a journal: write it as SEQ:HASH, with the 64 digits that a backup or a statement shows", text)
	}
	return h, nil
}

// BrokenError is the first fault that a verification found.
type BrokenError struct {
	// Check is the check that failed: sqlite, schema, chain, fold, projection, key, proxies,
	// months, published, events, head, snapshot or archive.
	Check string
	// Seq is the first journal row affected, or 0 if none is known.
	Seq    int64
	Detail string
	Err    error // a *fact.UnknownError if a later version wrote the row, otherwise nil
}

func (e *BrokenError) Unwrap() error { return e.Err }

func (e *BrokenError) Error() string {
	if e.Seq == 0 {
		return fmt.Sprintf("ledger is broken (%s): %s", e.Check, e.Detail)
	}
	return fmt.Sprintf("ledger is broken (%s) at journal row %d: %s", e.Check, e.Seq, e.Detail)
}

// FollowedBy returns a *BrokenError unless r is the next row: its sequence and prev_hash
// continue the head, and its hash matches its content. It reuses buf and returns it.
func (h Head) FollowedBy(r Row, buf []byte) ([]byte, error) {
	if r.Seq != h.Seq+1 {
		return buf, &BrokenError{Check: "chain", Seq: r.Seq, Detail: fmt.Sprintf("row %d is missing", h.Seq+1)}
	}
	if r.PrevHash != h.Hash {
		return buf, &BrokenError{Check: "chain", Seq: r.Seq, Detail: "prev_hash is not the hash of the row before"}
	}
	buf, hash := Hash(buf, r)
	if hash != r.Hash {
		return buf, &BrokenError{Check: "chain", Seq: r.Seq, Detail: "the row's content does not give its hash: it was changed after it was written"}
	}
	return buf, nil
}
