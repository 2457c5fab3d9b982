// A row of the journal: its hash in the chain, and its published event.

package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"perennial/ledger/fact"
)

// genesis is the prev_hash of the first row.
var genesis = strings.Repeat("0", sha256.Size*2)

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

// Instant returns the row's time in UTC.
func (r Row) Instant() time.Time { return fromMicros(r.Time) }

// hashRow returns the SHA-256 of the row with every field length-prefixed, so that no two
// different rows have the same encoding.
func hashRow(buf []byte, r Row) ([]byte, string) {
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

// Place is where an event stands in its journal; an event carries it as
// data.ledger, so that auditors can prove that history was rewritten.
type Place struct {
	Seq      int64  `json:"seq" doc:"The row of the journal, from 1 without a gap; also the message's sequence in the stream."`
	PrevHash string `json:"prev_hash" doc:"The hash of the row before it; 64 zeros in the first."`
	Hash     string `json:"hash" doc:"The row's hash."`
}

// Event renders the row as its published CloudEvent. The data is the journal's data, byte
// for byte, with "ledger" (a Place) added at its end.
func (r Row) Event(account string) ([]byte, error) {
	return r.AppendEvent(make([]byte, 0, len(r.Data)+2*len(account)+512), account)
}

// AppendEvent appends the row's Event to buf. It writes JSON by hand, because encoding/json
// would scan and copy the data again for every event.
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

// Trace returns the trace context of the row's command.
func (r Row) Trace() (fact.Trace, error) {
	if !strings.Contains(r.Data, `"traceparent":"`) {
		return fact.Trace{}, nil
	}
	var t fact.Trace
	err := json.Unmarshal([]byte(r.Data), &t)
	return t, err
}

// appendTrace writes the trace context as its CloudEvents extension.
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

// SchemaID names the schema of an event type or of a kind of command.
func SchemaID(name string) string { return "urn:perennial:schema:" + name + ":v1" }

// eventID returns the event's id. It is the same at every publication of the fact, and
// unique: a fact with the same sequence after a restore has another id.
func (r Row) eventID(account string) string {
	return account + "/" + r.Hash[:min(len(r.Hash), eventHash)] + "/" + itoa(r.Seq)
}

// eventHash is how many digits of a row's hash are in its event's id.
const eventHash = 16

// appendData writes the row's data with its place in the journal.
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

// appendString quotes s as JSON. Ids and types are nearly always plain text, which needs no
// escaping.
func appendString(buf []byte, s string) ([]byte, error) {
	if plain(s) {
		return append(append(append(buf, '"'), s...), '"'), nil
	}
	quoted, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return append(buf, quoted...), nil
}

// plain reports whether JSON, like encoding/json, writes the text as it is.
func plain(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ', c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}

// micros returns an instant as it is stored, so that two notations of one instant are
// equal.
func micros(t time.Time) int64 { return t.UnixMicro() }

func fromMicros(us int64) time.Time { return time.UnixMicro(us).UTC() }
