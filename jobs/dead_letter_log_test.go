package jobs

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logged "github.com/sirupsen/logrus/hooks/test"

	"perennial/queue/intake"
	"perennial/queue/letters"
)

// A thousand dead letters give one log entry, and the next entry gives the number since then.
func TestDeadLettersAreOneLogLineAMinute(t *testing.T) {
	t.Parallel()
	log, lines := logged.NewNullLogger()
	now, kept := time.Unix(1_800_000_000, 0), 0
	in := &intaker{deadLetterLog: &deadLetterLog{}, Config: &Config{
		Log: logrus.NewEntry(log), Clock: func() time.Time { return now },
		DeadLetter: func(context.Context, letters.Dead) error { kept++; return nil },
	}}
	for seq := range uint64(1000) {
		check(t, in.bury(t.Context(), &intake.Message{StreamSequence: seq + 1}, letters.CodeUnreadable, fmt.Sprintf("reason %d", seq+1)))
	}
	if kept != 1000 || len(lines.AllEntries()) != 1 {
		t.Fatalf("%d letters, %d lines", kept, len(lines.AllEntries()))
	}
	now = now.Add(time.Minute)
	in.deadLetterLog.log(in.Log, now)
	in.deadLetterLog.log(in.Log, now)
	if all := lines.AllEntries(); len(all) != 2 || all[1].Message != "dead letter: reason 2" || all[1].Data["messages"] != 999 || all[1].Data["stream_sequence"] != uint64(2) {
		t.Errorf("%v", all)
	}
}
