package queue

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Dead is a command that could not be read.
type Dead struct {
	Reason         string
	Subject        string
	Data           []byte
	StreamSequence uint64    // of the command in the commands stream
	Published      time.Time // when the stream stored the command
}

// deadLetter is how a dead command is kept.
type deadLetter struct {
	Reason         string    `json:"reason"`
	Subject        string    `json:"subject"`
	Data           string    `json:"data"`
	Encoding       string    `json:"encoding,omitempty"`
	StreamSequence uint64    `json:"stream_sequence"`
	PublishedAt    time.Time `json:"published_at"`
}

// DeadLetter stores a command that could not be read, with the reason, and
// returns when it is on disk; the original is acknowledged after that. Storing
// the same command again, because the acknowledgement was lost, is absorbed for
// a day.
// A body that is not UTF-8 is kept as base64, and "encoding" says so.
func (q *Queue) DeadLetter(ctx context.Context, account string, dead Dead) error {
	if err := ValidAccount(account); err != nil {
		return err
	}
	letter := deadLetter{
		Reason: dead.Reason, Subject: dead.Subject, Data: string(dead.Data),
		StreamSequence: dead.StreamSequence, PublishedAt: dead.Published.UTC(),
	}
	if !utf8.Valid(dead.Data) {
		letter.Data, letter.Encoding = base64.StdEncoding.EncodeToString(dead.Data), "base64"
	}
	body, err := json.Marshal(letter)
	if err != nil {
		return fmt.Errorf("dead letter: %w", err)
	}
	// The time beside the sequence: a commands stream that was made anew counts
	// from 1 again, and its letters must not be taken for the old ones.
	id := strconv.FormatUint(dead.StreamSequence, 10) + "-" + strconv.FormatInt(dead.Published.UnixNano(), 10)
	_, err = q.store(ctx, &nats.Msg{
		Subject: DeadSubject(account), Data: body, Header: nats.Header{jetstream.MsgIDHeader: {id}},
	})
	if err != nil {
		return fmt.Errorf("dead letter of command %s: %w", id, err)
	}
	return nil
}
