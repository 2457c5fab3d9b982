// This file has the message of a journal row on the events stream.

package outbox

import (
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"

	"perennial/queue"
	"perennial/queue/events"
)

// headerExpectedLast makes the stream refuse a message unless its last message has the
// sequence in the header.
const headerExpectedLast = "Nats-Expected-Last-Sequence"

// eventMessage returns the message of a journal row, without the headers for its position
// in the stream. It returns an error if the row's type cannot be part of a subject.
func eventMessage(account string, event *Event) (*nats.Msg, error) {
	if !queue.ValidToken(event.Type) {
		return nil, fmt.Errorf("journal row %d: type %q cannot be a subject", event.Seq, event.Type)
	}
	msg := &nats.Msg{Subject: queue.EventSubject(account, event.Type), Data: event.Payload, Header: nats.Header{
		events.HeaderSeq:  {strconv.FormatUint(event.Seq, 10)},
		events.HeaderHash: {event.Hash},
		"content-type":    {"application/cloudevents+json"},
	}}
	if event.Traceparent != "" {
		msg.Header.Set("traceparent", event.Traceparent)
	}
	if event.Tracestate != "" {
		msg.Header.Set("tracestate", event.Tracestate)
	}
	return msg, nil
}

// expectLast makes the stream refuse the message unless the stream's last message has this
// sequence.
func expectLast(msg *nats.Msg, last uint64) {
	msg.Header[headerExpectedLast] = []string{strconv.FormatUint(last, 10)}
}
