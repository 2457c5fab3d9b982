// The headers of messages in the AsyncAPI document.

package schema

import (
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"perennial/queue"
	"perennial/queue/events"
	"perennial/queue/service"
)

// headersOf refers to the headers of a kind of message.
func headersOf(kind string) object {
	return object{"$ref": "#/components/schemas/headers." + kind}
}

// headerSchemas describes the headers of each kind of message. All values are texts. NATS compares
// header names case-sensitively; the runner accepts a command's headers in any case.
func headerSchemas() object {
	trace := object{
		"traceparent": header("The W3C trace context, which every event of the command carries on."),
		"tracestate":  header("The vendors' part of the trace context."),
	}
	event := object{
		events.HeaderSeq:        header("The row of the journal; data.ledger.seq."),
		events.HeaderHash:       header("The row's hash; data.ledger.hash."),
		"content-type":          object{"const": "application/cloudevents+json", "description": "A CloudEvent in structured JSON."},
		nats.ExpectedLastSeqHdr: header("What the stream's last sequence had to be: the row before."),
		"traceparent":           trace["traceparent"],
		"tracestate":            trace["tracestate"],
	}
	user := header("The NATS user that asked, where the server proves it.")
	return object{
		"headers.command": headers("Headers of a command.", nil, object{
			queue.HeaderReplyTo: object{
				"type": "string", "pattern": `^_INBOX\.[!-~]+$`, "maxLength": queue.MaxInbox, "description": "The inbox that gets what the command came to.",
			},
			nats.MsgIdHdr: header("Not needed: the id in the command makes a repeat harmless, whenever it comes. Where a client sets it, it is the command's id: " +
				"the stream drops a second message with the same header within a tenth of a second."),
			"traceparent": trace["traceparent"], "tracestate": trace["tracestate"],
		}),
		"headers.event": headers("Headers of an event.", []string{events.HeaderSeq, events.HeaderHash, "content-type"}, event),
		"headers.dead": headers("Headers of a dead letter.", []string{nats.MsgIdHdr}, object{
			nats.MsgIdHdr: header("`<sequence>-<nanoseconds>`: where and when the commands stream stored the command."),
		}),
		"headers.request": headers("Headers of a request.", nil, object{
			service.HeaderParts: object{"const": "1", "description": "The client takes an answer in several messages."},
		}),
		"headers.carryOut": headers("Headers of a request that is a command.", nil, trace),
		"headers.answer": headers("Headers of an answer.", nil, object{
			service.HeaderParts: header("`<number>/<how many>`: the message is a part of the answer, to be joined in this order."), service.HeaderUser: user,
		}),
		"headers.error": headers("Headers of an answer that is an error.", []string{micro.ErrorCodeHeader, micro.ErrorHeader}, object{
			micro.ErrorCodeHeader: header("Short and stable, for programs: bad_request, not_found, refused, busy, unproven, too_large, stopping, unreachable, failed; of a command also unreadable, conflict, not_finished."),
			micro.ErrorHeader:     header("One line, for people."), service.HeaderUser: user,
		}),
	}
}

func headers(description string, required []string, properties object) object {
	s := object{"type": "object", "description": description, "properties": properties}
	if required != nil {
		s["required"] = required
	}
	return s
}

func header(description string) object {
	return object{"type": "string", "description": description}
}
