// The position where a webhook's delivery continues, even if the history was cut.

package webhook

import (
	"context"
	"math/bits"
	"slices"

	"perennial/queue/positions"
)

// The values of [Sink.From]: where a new webhook begins.
const (
	FromNow   = "now"   // after the last event at the webhook's first start
	FromStart = "start" // at the first event in the stream
)

// open loads or creates the position, corrects it if the history was cut, and stores it. It
// returns the position where delivery continues.
func (s *Sink) open(ctx context.Context) (p positions.Position, revision uint64, err error) {
	s.written.Store(0) // revisions in a recreated bucket begin at 1 again
	p, revision, err = s.Positions.Load(ctx)
	if err != nil {
		return p, 0, err
	}
	if revision == 0 {
		if p, err = s.begin(ctx, p); err != nil {
			return p, 0, err
		}
	}
	if p.By != "" {
		s.Log.WithField("by", p.By).WithField("reason", p.Reason).WithField("stream_seq", p.Seq).Info("the webhook's position was moved by a person")
	}
	p.By, p.Reason, p.Stopped, p.LastError, p.NextAttempt = "", "", "", s.fault, nil
	if p, err = s.resumeAt(ctx, p); err != nil {
		return p, 0, err
	}
	revision, err = s.Positions.Save(ctx, p, revision)
	return p, revision, err
}

// begin returns the first position of a webhook that has no stored position. If this process
// knows a position, or kept is the copy of a position, the bucket was lost. Delivery then
// continues at that position.
func (s *Sink) begin(ctx context.Context, kept positions.Position) (p positions.Position, err error) {
	if s.last != nil {
		kept = *s.last
	}
	if s.last != nil || kept.Read.Seq > 0 {
		s.Log.WithField("stream_seq", kept.Seq).Warn("the webhook's position is gone from NATS, and is written again")
		return kept, nil
	}
	first, last, err := s.Events.Ends(ctx)
	if err != nil {
		return p, err
	}
	if p.Seq = max(first, 1) - 1; s.From != FromStart {
		p.Seq = last
	}
	if p.Seq > 0 {
		if p.Hash, _, err = s.Events.HashAt(ctx, p.Seq); err != nil {
			return p, err
		}
	}
	p.Read = p.Mark
	s.Log.WithField("stream_seq", p.Seq).Info("the webhook is new, and begins after this event")
	return p, nil
}

// resumeAt returns the position where delivery continues. After a restore that lost rows,
// new rows get the sequences of the lost rows, so the delivered events may differ from the
// account's history. Delivery then continues after the newest mark that is in both. To
// compare a mark's hash is enough, because a row's hash covers all earlier rows.
func (s *Sink) resumeAt(ctx context.Context, p positions.Position) (positions.Position, error) {
	_, last, err := s.Events.Ends(ctx)
	if err != nil {
		return p, err
	}
	agrees := func(m positions.Mark) (bool, error) {
		if m.Seq == 0 || m.Hash == "" { // an empty mark agrees with any history
			return true, nil
		}
		hash, found, err := s.Events.HashAt(ctx, m.Seq)
		if err == nil && !found { // the event was archived, which does not mean that the history differs
			return m.Seq <= last, nil
		}
		return hash == m.Hash, err
	}
	if same, err := agrees(p.Read); err != nil || same {
		return p, err
	}
	for _, m := range slices.Backward(append(slices.Clone(p.Marks), p.Mark)) {
		same, err := agrees(m)
		if err != nil {
			return p, err
		}
		if same {
			return s.rewind(p, m), nil
		}
	}
	return s.rewind(p, positions.Mark{}), nil
}

// rewind moves the position back to a mark. The events delivered after the mark belong to a
// different history.
func (s *Sink) rewind(p positions.Position, m positions.Mark) positions.Position {
	s.Log.WithField("stream_seq", m.Seq).WithField("was_seq", p.Read.Seq).
		Warn("the account's history is another one after this event, as after a restore: the webhook delivers what follows it, also what it may have delivered before")
	marks := slices.DeleteFunc(slices.Clone(p.Marks), func(x positions.Mark) bool { return x.Seq >= m.Seq })
	return positions.Position{Mark: m, Read: m, Marks: marks, LastError: p.LastError}
}

// thinMarks drops some of the older marks. It groups the marks by their distance from now, in
// ranges that double in size, and keeps the oldest mark of each group. Some forty marks
// therefore cover any journal.
func thinMarks(marks []positions.Mark, was positions.Mark, now uint64) []positions.Mark {
	var kept []positions.Mark
	taken := map[int]bool{}
	for _, m := range append(slices.Clone(marks), was) {
		if m.Seq == 0 || m.Hash == "" || m.Seq >= now {
			continue
		}
		if distance := bits.Len64(now - m.Seq); !taken[distance] {
			taken[distance] = true
			kept = append(kept, m)
		}
	}
	return kept
}
