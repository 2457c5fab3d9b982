package main

import (
	"context"
	"errors"

	"perennial/ledger"
	"perennial/queue"
)

// source shows the ledger's journal to the relay.
type source struct {
	ledger         *ledger.Ledger
	account, epoch string

	text []byte // of the events that were returned last
}

// Events renders rows into one buffer, which the next call uses again: under
// load it would be the most memory that anything here asks for.
func (s *source) Events(ctx context.Context, after uint64, limit int) ([]queue.Event, error) {
	rows, err := s.ledger.Rows(ctx, int64(after), limit)
	if err != nil {
		return nil, err
	}
	events := make([]queue.Event, 0, len(rows))
	if s.text = s.text[:0]; cap(s.text) > 4<<20 {
		s.text = nil // some facts were large: that much is not kept for the usual ones
	}
	for _, r := range rows {
		begin := len(s.text)
		if s.text, err = r.AppendEvent(s.text, s.account, s.epoch); err != nil {
			return nil, err
		}
		events = append(events, queue.Event{Seq: uint64(r.Seq), Hash: r.Hash, Type: r.Type, Payload: s.text[begin:len(s.text):len(s.text)]})
	}
	return events, nil
}

func (s *source) Changed(after uint64) <-chan struct{} { return s.ledger.Changed(int64(after)) }

func (s *source) HashAt(ctx context.Context, seq uint64) (string, bool, error) {
	row, err := s.ledger.Row(ctx, int64(seq))
	if errors.Is(err, ledger.ErrNotFound) {
		return "", false, nil
	}
	return row.Hash, err == nil, err
}
