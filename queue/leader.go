// Reads of the events stream that its leader answers. What the client library offers
// (GetMsg, GetLastMsgForSubject) is answered by any replica, which may be behind.

package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// LastRow is the last message of an account's events stream, as the stream's leader
// has it; found is false while there is none. A message that no outbox
// wrote has Seq 0. The error is [ErrNoAccount] when there is no such stream, a
// [DeniedError], or one of NATS: no answer within 3 s among them.
func (q *Queue) LastRow(ctx context.Context, account string) (event ReceivedEvent, found bool, err error) {
	return q.leaderRow(ctx, account, messageRequest{LastBySubject: EventSubject(account, ">")})
}

// RowAt is the message of an account's events stream with a stream sequence, as the
// stream's leader has it; found is false when it has none there. The errors are those of
// LastRow.
func (q *Queue) RowAt(ctx context.Context, account string, seq uint64) (event ReceivedEvent, found bool, err error) {
	if seq == 0 { // the server takes it for no request
		return ReceivedEvent{}, false, ValidAccount(account)
	}
	return q.leaderRow(ctx, account, messageRequest{Seq: seq})
}

// messageRequest asks a stream for one message, by one of the two.
type messageRequest struct {
	Seq           uint64 `json:"seq,omitempty"`
	LastBySubject string `json:"last_by_subj,omitempty"`
}

// messageAnswer is the leader's answer.
type messageAnswer struct {
	Error   *jetstream.APIError `json:"error"`
	Message *struct {
		Subject string `json:"subject"`
		Seq     uint64 `json:"seq"`
		Header  []byte `json:"hdrs"`
		Data    []byte `json:"data"`
	} `json:"message"`
}

func (q *Queue) leaderRow(ctx context.Context, account string, want messageRequest) (ReceivedEvent, bool, error) {
	if err := ValidAccount(account); err != nil {
		return ReceivedEvent{}, false, err
	}
	var answer messageAnswer
	if err := q.JetStream().Ask(ctx, "STREAM.MSG.GET."+EventsStream(account), want, &answer); err != nil {
		return ReceivedEvent{}, false, fmt.Errorf("events of account %s: %w", account, err)
	}
	switch {
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return ReceivedEvent{}, false, nil
	case answer.Error != nil:
		return ReceivedEvent{}, false, leaderError(account, answer.Error)
	case answer.Message == nil:
		return ReceivedEvent{}, false, fmt.Errorf("events of account %s: an answer without a message", account)
	}
	m := answer.Message
	header := nats.Header{}
	if len(m.Header) > 0 {
		var err error
		if header, err = nats.DecodeHeadersMsg(m.Header); err != nil {
			return ReceivedEvent{}, false, fmt.Errorf("event %d of account %s: %w", m.Seq, account, err)
		}
	}
	return received(account, m.Subject, m.Seq, header, m.Data), true, nil
}

// eventsInfo is what the leader of an account's events stream says of it.
func (q *Queue) eventsInfo(ctx context.Context, account string) (*jetstream.StreamInfo, error) {
	var answer struct {
		Error *jetstream.APIError `json:"error"`
		jetstream.StreamInfo
	}
	if err := q.JetStream().Ask(ctx, "STREAM.INFO."+EventsStream(account), nil, &answer); err != nil {
		return nil, fmt.Errorf("events of account %s: %w", account, err)
	}
	if answer.Error != nil {
		return nil, leaderError(account, answer.Error)
	}
	return &answer.StreamInfo, nil
}

func leaderError(account string, refused *jetstream.APIError) error {
	if errors.Is(refused, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("account %s: %w: it has no events stream", account, ErrNoAccount)
	}
	return fmt.Errorf("events of account %s: %w", account, refused)
}
