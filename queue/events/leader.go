// This file reads the events stream from its leader. The client library's reads (GetMsg,
// GetLastMsgForSubject) are answered by any replica, which may lag.

package events

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
)

// LastRow returns the last message of an account's events stream, as the stream's leader has
// it. found is false if there is none. A message that no outbox wrote has Seq 0. The error
// is [queue.ErrNoAccount] if the stream does not exist, a [queue.DeniedError], or an error
// from NATS, such as no reply within 3 s.
func (s Stream) LastRow(ctx context.Context) (event Event, found bool, err error) {
	return s.leaderRow(ctx, messageRequest{LastBySubject: queue.EventSubject(s.account, ">")})
}

// RowAt returns the message with the given sequence in an account's events stream, as the
// stream's leader has it. found is false if there is none. The errors are those of LastRow.
func (s Stream) RowAt(ctx context.Context, seq uint64) (event Event, found bool, err error) {
	if seq == 0 { // the server does not accept 0
		return Event{}, false, queue.ValidAccount(s.account)
	}
	return s.leaderRow(ctx, messageRequest{Seq: seq})
}

// messageRequest asks a stream for one message, by one of its fields.
type messageRequest struct {
	Seq           uint64 `json:"seq,omitempty"`
	LastBySubject string `json:"last_by_subj,omitempty"`
}

type messageAnswer struct {
	Error   *jetstream.APIError `json:"error"`
	Message *struct {
		Subject string `json:"subject"`
		Seq     uint64 `json:"seq"`
		Header  []byte `json:"hdrs"`
		Data    []byte `json:"data"`
	} `json:"message"`
}

func (s Stream) leaderRow(ctx context.Context, want messageRequest) (Event, bool, error) {
	if err := queue.ValidAccount(s.account); err != nil {
		return Event{}, false, err
	}
	var answer messageAnswer
	if err := s.js.Ask(ctx, "STREAM.MSG.GET."+queue.EventsStream(s.account), want, &answer); err != nil {
		return Event{}, false, fmt.Errorf("events of account %s: %w", s.account, err)
	}
	switch {
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return Event{}, false, nil
	case answer.Error != nil:
		return Event{}, false, leaderError(s.account, answer.Error)
	case answer.Message == nil:
		return Event{}, false, fmt.Errorf("events of account %s: an answer without a message", s.account)
	}
	m := answer.Message
	header := nats.Header{}
	if len(m.Header) > 0 {
		var err error
		if header, err = nats.DecodeHeadersMsg(m.Header); err != nil {
			return Event{}, false, fmt.Errorf("event %d of account %s: %w", m.Seq, s.account, err)
		}
	}
	return received(s.account, m.Subject, m.Seq, header, m.Data), true, nil
}

// Info returns the leader's information about an account's events stream.
func (s Stream) Info(ctx context.Context) (*jetstream.StreamInfo, error) {
	var answer struct {
		Error *jetstream.APIError `json:"error"`
		jetstream.StreamInfo
	}
	if err := s.js.Ask(ctx, "STREAM.INFO."+queue.EventsStream(s.account), nil, &answer); err != nil {
		return nil, fmt.Errorf("events of account %s: %w", s.account, err)
	}
	if answer.Error != nil {
		return nil, leaderError(s.account, answer.Error)
	}
	return &answer.StreamInfo, nil
}

func leaderError(account string, refused *jetstream.APIError) error {
	if errors.Is(refused, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("account %s: %w: it has no events stream", account, queue.ErrNoAccount)
	}
	return fmt.Errorf("events of account %s: %w", account, refused)
}
