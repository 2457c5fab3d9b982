package client

import (
	"errors"
	"testing"
)

func TestAnEventThatIsLeftOutOrOfAnotherHistoryIsAnError(t *testing.T) {
	at := func(seq uint64, hash string) Position { return Position{Seq: seq, Hash: hash} }
	for _, c := range []struct {
		before   Position
		next     Position
		previous string
		all      bool
		want     error
	}{
		{Position{}, at(7, "g"), "f", true, nil}, // the events before were archived
		{at(7, "g"), at(8, "h"), "g", true, nil},
		{at(7, "g"), at(8, "h"), "x", true, ErrOtherHistory},
		{at(7, "g"), at(8, "h"), "x", false, ErrOtherHistory},
		{at(7, "g"), at(10, "j"), "i", true, ErrArchived},
		{at(7, "g"), at(10, "j"), "i", false, nil}, // events of other types are between them
		{at(7, ""), at(8, "h"), "g", true, nil},
	} {
		if err := continues(c.before, Event{Position: c.next}, c.previous, c.all); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
