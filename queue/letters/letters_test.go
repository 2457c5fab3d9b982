package letters

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"perennial/queue"
	"perennial/queue/natstest"
)

// unit holds byte sequences that JSON or base64 may lengthen.
var unit = []string{"a", "<", ">", "&", `"`, `\`, "\x00", "\x1f", "\x7f", "\n", "é", "\u2028", "\ufffd", "\xff", "𝒳"}

// The dead letter contains the complete command, and its size is limited by the command's size.
func TestADeadLetterIsFourTimesItsCommandAtMost(t *testing.T) {
	for _, worst := range unit {
		checkDeadLetter(t, []byte(strings.Repeat(worst, 5000)))
	}
	rapid.Check(t, func(t *rapid.T) {
		var data bytes.Buffer
		for range rapid.IntRange(0, 20).Draw(t, "parts") {
			data.WriteString(strings.Repeat(rapid.SampledFrom(unit).Draw(t, "unit"), rapid.IntRange(1, 2000).Draw(t, "times")))
		}
		checkDeadLetter(t, data.Bytes())
	})
}

// checkDeadLetter checks that a letter with this body is small enough and reads back as
// written.
func checkDeadLetter(t interface {
	Fatalf(format string, args ...any)
}, data []byte) {
	dead := Dead{
		Reason: strings.Repeat("it is not JSON, ", 30), Subject: queue.CommandSubject(strings.Repeat("a", 60), queue.KindOrderCreate),
		Data: data, StreamSequence: 1 << 63, Published: time.Unix(1, 999_999_999),
	}
	letter, err := dead.encode()
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	if len(letter) > 4*len(data)+1<<10 {
		t.Fatalf("%d bytes became %d", len(data), len(letter))
	}
	back, err := decodeLetter(letter)
	if err != nil || !bytes.Equal(back.Data, dead.Data) || back.Reason != dead.Reason {
		t.Fatalf("%.100q came back as %.100q: %v", dead.Data, back.Data, err)
	}
}

// Dropped letters are skipped.
func TestLettersBehindASequence(t *testing.T) {
	js := newMain(t)
	ctx := natstest.Within(t)
	for n := range uint64(6) {
		natstest.Check(t, Of(js, "main").Store(ctx, Dead{Reason: "not JSON", Subject: queue.CommandSubject("main", queue.KindOrderCreate), Data: []byte("{"), StreamSequence: n, Published: time.Unix(1, 0)}))
	}
	for _, seq := range []uint64{1, 3, 4} {
		natstest.Check(t, Of(js, "main").Drop(ctx, seq))
	}
	for after, want := range map[uint64]string{0: "[2 5 6]", 1: "[2 5 6]", 2: "[5 6]", 3: "[5 6]", 5: "[6]", 6: "[]", 99: "[]"} {
		got := []uint64{}
		for l, err := range Of(js, "main").After(ctx, after) {
			natstest.Check(t, err)
			got = append(got, l.Seq)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("behind %d: %v", after, got)
		}
	}
	natstest.Check(t, Of(js, "main").Drop(ctx, 6))
	for l, err := range Of(js, "main").After(ctx, 5) {
		t.Errorf("%v %v", l, err)
	}
}

func TestUnreadableCommandIsKeptOnceWithItsReason(t *testing.T) {
	js := newMain(t)
	ctx := natstest.Within(t)
	dead := Dead{Reason: "not JSON", Subject: queue.CommandSubject("main", queue.KindOrderCreate), Data: []byte{0xff, 0}, StreamSequence: 7, Published: time.Unix(1, 0)}
	natstest.Check(t, Of(js, "main").Store(ctx, dead))
	natstest.Check(t, Of(js, "main").Store(ctx, dead))
	dead.StreamSequence, dead.Data = 8, []byte("{")
	natstest.Check(t, Of(js, "main").Store(ctx, dead))
	stream, err := js.Stream(ctx, queue.DeadStream("main"))
	natstest.Check(t, err)
	if n := stream.CachedInfo().State.Msgs; n != 2 {
		t.Fatalf("%d dead letters", n)
	}
	for seq, want := range map[uint64]string{1: "/wA= base64", 2: "{ "} {
		msg, err := stream.GetMsg(ctx, seq)
		natstest.Check(t, err)
		var letter Kept
		natstest.Check(t, json.Unmarshal(msg.Data, &letter))
		if got := fmt.Sprint(letter.Data, " ", letter.Encoding); got != want || letter.Reason != "not JSON" || letter.StreamSequence != 6+seq {
			t.Errorf("%s", msg.Data)
		}
	}
}
