package letters

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
)

// Letters has the dead letters of one account.
type Letters struct {
	js      *queue.JetStream
	account string
}

// Of returns the dead letters of an account.
func Of(js *queue.JetStream, account string) Letters { return Letters{js, account} }

// Codes of dead letters. The runner also sends them in replies to producers.
const (
	CodeUnreadable = "unreadable"
	CodeRefused    = "refused"
)

// Dead is a command that could not be read.
type Dead struct {
	Code           string // empty in dead letters of older versions
	Reason         string
	Subject        string
	Data           []byte
	StreamSequence uint64    // sequence of the command in the commands stream
	Published      time.Time // when the stream stored the command
}

// Kept is the stored form of a dead letter: a command that could not be read, with the reason.
type Kept struct {
	Code           string    `json:"code,omitempty" doc:"unreadable or refused."`
	Reason         string    `json:"reason" doc:"The reason, for people; the text may change."`
	Subject        string    `json:"subject" doc:"The subject on which the message was published."`
	Data           string    `json:"data" doc:"The bytes of the message, as text."`
	Encoding       string    `json:"encoding,omitempty" doc:"base64 if 'data' is in base64; else 'data' is the message unchanged."`
	StreamSequence uint64    `json:"stream_sequence" doc:"The sequence of the message in the commands stream."`
	PublishedAt    time.Time `json:"published_at" doc:"When the commands stream stored the message."`
}

// Store stores a command that could not be read, and returns when it is on disk. The caller
// acknowledges the command afterwards. If the same command is stored again within a day, after a
// lost acknowledgement, the stream keeps one copy. A body is stored as base64, and Encoding is
// set, if the body is not UTF-8. The same applies if the body would more than double in size as
// JSON text.
func (l Letters) Store(ctx context.Context, dead Dead) error {
	if err := queue.ValidAccount(l.account); err != nil {
		return err
	}
	body, err := dead.encode()
	if err != nil {
		return fmt.Errorf("dead letter: %w", err)
	}
	// The id includes the time, because the sequences begin with 1 again if the commands stream
	// is recreated. Without the time, a new dead letter could count as a duplicate of an old
	// one.
	id := strconv.FormatUint(dead.StreamSequence, 10) + "-" + strconv.FormatInt(dead.Published.UnixNano(), 10)
	_, err = l.js.Store(ctx, &nats.Msg{
		Subject: queue.DeadSubject(l.account), Data: body, Header: nats.Header{jetstream.MsgIDHeader: {id}},
	})
	if err != nil {
		return fmt.Errorf("dead letter of command %s: %w", id, err)
	}
	return nil
}

func (d Dead) encode() ([]byte, error) {
	letter := Kept{
		Code: d.Code, Reason: d.Reason, Subject: d.Subject, Data: string(d.Data),
		StreamSequence: d.StreamSequence, PublishedAt: d.Published.UTC(),
	}
	text, err := plainJSON(letter)
	if err != nil || utf8.Valid(d.Data) && len(text) <= 2*len(d.Data)+1<<10 {
		return text, err
	}
	letter.Data, letter.Encoding = base64.StdEncoding.EncodeToString(d.Data), "base64"
	return plainJSON(letter)
}

// plainJSON encodes v without escaping <, > and &, because each would take six bytes.
func plainJSON(v any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return bytes.TrimRight(text.Bytes(), "\n"), err
}

// Text returns the command's bytes as text. A body that is not text is quoted as in Go.
func (d Dead) Text() string {
	data := string(d.Data)
	if quoted := strconv.Quote(data); strings.Contains(quoted, `\x`) {
		return quoted
	}
	return data
}

// Letter is a dead letter in its stream. Seq identifies it for Read and Drop.
type Letter struct {
	Seq  uint64
	Dead Dead
}

// After yields an account's dead letters after a sequence, the oldest first.
func (l Letters) After(ctx context.Context, after uint64) iter.Seq2[Letter, error] {
	return func(yield func(Letter, error) bool) {
		stream, err := l.stream(ctx)
		if err != nil {
			yield(Letter{}, err)
			return
		}
		next := jetstream.WithGetMsgSubject(queue.DeadSubject(l.account)) // GetMsg then returns the first dead letter at or after the sequence
		for last := stream.CachedInfo().State.LastSeq; after < last; {
			letter, err := letterAt(ctx, stream, after+1, next)
			if errors.Is(err, ErrNone) {
				return
			}
			if !yield(letter, err) || err != nil {
				return
			}
			after = letter.Seq
		}
	}
}

// Count returns how many dead letters an account has.
func (l Letters) Count(ctx context.Context) (int64, error) {
	stream, err := l.stream(ctx)
	if err != nil {
		return 0, err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(queue.DeadSubject(l.account)))
	if err != nil {
		return 0, err
	}
	return int64(info.State.Subjects[queue.DeadSubject(l.account)]), nil
}

// ErrNone is returned for a sequence that has no dead letter.
var ErrNone = errors.New("there is no such dead letter")

// Read returns one dead letter. It returns ErrNone if there is none with this sequence.
func (l Letters) Read(ctx context.Context, seq uint64) (Letter, error) {
	stream, err := l.stream(ctx)
	if err != nil {
		return Letter{}, err
	}
	return letterAt(ctx, stream, seq)
}

// Drop permanently removes one dead letter. It returns ErrNone if there is none with this
// sequence.
func (l Letters) Drop(ctx context.Context, seq uint64) error {
	stream, err := l.stream(ctx)
	if err != nil {
		return err
	}
	err = stream.DeleteMsg(ctx, seq)
	if refused, ok := errors.AsType[*jetstream.APIError](err); ok && refused.Code == 400 {
		return fmt.Errorf("account %s, sequence %d: %w", l.account, seq, ErrNone)
	}
	return err
}

func (l Letters) stream(ctx context.Context) (jetstream.Stream, error) {
	return queue.StreamOf(ctx, l.js, l.account, queue.DeadStream(l.account), "dead letter stream")
}

func letterAt(ctx context.Context, stream jetstream.Stream, seq uint64, which ...jetstream.GetMsgOpt) (Letter, error) {
	msg, err := stream.GetMsg(ctx, seq, which...)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return Letter{}, fmt.Errorf("sequence %d: %w", seq, ErrNone)
	}
	if err != nil {
		return Letter{}, fmt.Errorf("dead letter %d: %w", seq, err)
	}
	dead, err := decodeLetter(msg.Data)
	if err != nil {
		return Letter{}, fmt.Errorf("dead letter %d cannot be read: %w", seq, err)
	}
	return Letter{Seq: msg.Sequence, Dead: dead}, nil
}

func decodeLetter(text []byte) (d Dead, err error) {
	var kept Kept
	if err := json.Unmarshal(text, &kept); err != nil {
		return d, err
	}
	d = Dead{Code: kept.Code, Reason: kept.Reason, Subject: kept.Subject, Data: []byte(kept.Data), StreamSequence: kept.StreamSequence, Published: kept.PublishedAt}
	if kept.Encoding == "base64" {
		d.Data, err = base64.StdEncoding.DecodeString(kept.Data)
	}
	return d, err
}
