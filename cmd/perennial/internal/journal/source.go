// The ledger as the outbox's source of rows, and advice for a stream that differs from the
// ledger.

package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"perennial/ledger"
	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/queue/outbox"
)

// Source reads the ledger's journal for the outbox. It is not safe for concurrent use.
type Source struct {
	Ledger  *ledger.Ledger
	Account string

	text []byte // the events of the last call
}

// Events implements outbox.Source.
func (s *Source) Events(ctx context.Context, after uint64, limit int) ([]outbox.Event, error) {
	rows, err := s.Ledger.Rows(ctx, int64(after), limit)
	if err != nil {
		return nil, err
	}
	return s.Render(rows)
}

// Render returns rows as events. The payloads share one buffer, which the next call reuses.
// Under load, a buffer for each event would be the largest share of all allocations.
func (s *Source) Render(rows []chain.Row) (_ []outbox.Event, err error) {
	events := make([]outbox.Event, 0, len(rows))
	if s.text = s.text[:0]; cap(s.text) > 4<<20 {
		s.text = nil // release a buffer that became large
	}
	for _, r := range rows {
		begin := len(s.text)
		if s.text, err = r.AppendEvent(s.text, s.Account); err != nil {
			return nil, err
		}
		event := outbox.Event{Seq: uint64(r.Seq), Hash: r.Hash, Type: r.Type, Payload: s.text[begin:len(s.text):len(s.text)]}
		trace, err := r.Trace()
		if err != nil {
			return nil, err
		}
		event.Traceparent, event.Tracestate = trace.Traceparent, trace.Tracestate
		if event.ReplyTo, err = replyTo(r); event.ReplyTo != "" {
			event.Reply = []byte(r.Data)
		}
		if err != nil {
			return nil, err
		}
		events = append(events, event)
	}
	return events, nil
}

// replyTo returns the inbox that receives the result of a command. It returns "" if the row is
// not a command.finished or has no inbox.
func replyTo(r chain.Row) (string, error) {
	if r.Type != "command.finished" || !strings.Contains(r.Data, `"reply_to":`) {
		return "", nil
	}
	var f fact.CommandFinished
	err := json.Unmarshal([]byte(r.Data), &f)
	return f.ReplyTo, err
}

// Changed implements outbox.Source.
func (s *Source) Changed(after uint64) <-chan struct{} { return s.Ledger.Changed(int64(after)) }

// HashAt returns the hash of the row at a sequence. It implements outbox.Source.
func (s *Source) HashAt(ctx context.Context, seq uint64) (string, bool, error) {
	row, err := s.Ledger.Row(ctx, int64(seq))
	if errors.Is(err, ledger.ErrNotFound) {
		return "", false, nil
	}
	return row.Hash, err == nil, err
}

// HistoryReason describes how the ledger's file and the stream differ, and gives advice.
// ownHash is the ledger's hash of the stream's last row, or "" if the ledger ends earlier.
func HistoryReason(ownHash string, head int64, published uint64) string {
	if ownHash == "" {
		return fmt.Sprintf("the ledger file is older than what was published (it ends at %d, the stream at %d): it has forgotten what was sent\n"+
			"put the rest back with `perennial ledger restore --from THE-LEDGER-FILE --replace`, or all of it with `--from-events --replace`", head, published)
	}
	return "the events stream holds another history than the ledger file\n" +
		"use the ledger that wrote it, or check with `perennial ledger verify --against-events` and bring the published one back with `perennial ledger restore --from-events --replace`"
}

// RefillAdvice is the advice for an events stream that lost its events.
const RefillAdvice = "prove the ledger first, with a head that was kept elsewhere (`perennial ledger verify --expect SEQ:HASH`): nothing on the stream can tell any more whether it was rewritten\n" +
	"then publish everything again from it with `perennial run --refill-events`"

// HeldFromNote converts the ledger's note of its published rows for the outbox.
func HeldFromNote(noted ledger.Published) outbox.Held {
	return outbox.Held{Last: uint64(noted.Seq), Firm: uint64(noted.FirmSeq)}
}

// EventsBegin returns a function that returns the latest row at which the events stream may
// begin, according to the ledger.
func EventsBegin(l *ledger.Ledger) func(context.Context) (uint64, error) {
	return func(ctx context.Context) (uint64, error) {
		seq, err := l.EventsBegin(ctx)
		return uint64(seq), err
	}
}
