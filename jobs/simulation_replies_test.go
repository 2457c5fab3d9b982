package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/queue"
)

// store stores a command's message, which may have an inbox and a trace.
func (s *simulation) store(kind queue.Kind, id string, body []byte) {
	header := nats.Header{}
	if s.mail.IntN(2) == 0 {
		inbox := "_INBOX." + strconv.Itoa(len(s.inboxes)+1)
		s.inboxes[inbox] = id
		header.Set("perennial-reply-to", inbox)
	}
	if s.mail.IntN(3) == 0 {
		header.Set("Traceparent", fmt.Sprintf("00-%032x-%016x-01", s.mail.Uint64()|1, s.mail.Uint64()|1))
	}
	s.stream.PublishMessage(queue.Line{Kind: kind}, body, header)
}

// answered receives a message to an inbox. The runner may crash before it sends one.
func (s *simulation) answered(inbox, what string) {
	if s.crashIn > 0 && s.mail.IntN(4) == 0 {
		panic(crash{"intake.answer"})
	}
	s.answers[inbox] = append(s.answers[inbox], what)
}

// replies compares replies with messages: each message with an inbox gets the end of its
// command, or an immediate reply. The command.finished in the ledger has the inbox. Each fact
// of an operation has the trace of the accepted message.
func (s *simulation) replies(ctx context.Context) {
	named, traces := map[string]bool{}, map[string]fact.Trace{}
	for after := int64(0); ; {
		rows, err := s.ledger.Rows(ctx, after, 1000)
		s.must(err, "rows")
		if len(rows) == 0 {
			break
		}
		for _, r := range rows {
			after = r.Seq
			s.reply(r, named, traces)
		}
	}
	for inbox, id := range s.inboxes {
		if !named[inbox] && len(s.answers[inbox]) == 0 {
			s.failf("the inbox %s of a message of %s was never answered", inbox, id)
		}
	}
}

func (s *simulation) reply(r chain.Row, named map[string]bool, traces map[string]fact.Trace) {
	var f struct {
		fact.Ref

		ReplyTo string `json:"reply_to"`
	}
	s.must(json.Unmarshal([]byte(r.Data), &f), "row")
	switch {
	case r.Type == "command.accepted":
		traces[f.CommandID] = f.Trace
	case f.OperationID != "" && f.Trace != traces[f.CommandID]:
		s.failf("%s %s has the trace %v of %v", r.Type, r.Operation, f.Trace, traces[f.CommandID])
	}
	if r.Type != "command.finished" || f.ReplyTo == "" {
		return
	}
	if s.inboxes[f.ReplyTo] != f.CommandID {
		s.failf("%s is answered at %s, an inbox of %q", f.CommandID, f.ReplyTo, s.inboxes[f.ReplyTo])
	}
	named[f.ReplyTo] = true
}
