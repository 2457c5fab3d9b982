// Producer publishes a command and waits for its end:
//
//	go run ./docs/events/examples/go/producer order.create '{"id":"restock-7","duration_days":30,"items":[…]}'
//
// The end is printed as one line of JSON. Run again with the same command, after a crash or
// for no reason at all, it does nothing twice: the id of the command is what counts.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"perennial/docs/events/examples/go/connect"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: producer order.create|proxy.renew COMMAND")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	end, err := run(ctx, os.Args[1], []byte(os.Args[2]))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(string(end))
	var result struct{ State string }
	if err := json.Unmarshal(end, &result); err != nil || result.State != "delivered" && result.State != "completed" {
		os.Exit(1)
	}
}

func run(ctx context.Context, kind string, body []byte) (json.RawMessage, error) {
	var command struct{ ID string }
	if err := json.Unmarshal(body, &command); err != nil {
		return nil, err
	}
	nc, err := connect.NATS()
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	inbox := nc.NewInbox() // of this process: another one that sends the command again has its own
	answers, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	if err := publish(ctx, nc, kind, body, inbox); err != nil {
		return nil, err
	}
	// The answer comes to the inbox. It is missed while the connection is away, so the
	// service is asked too, now and then.
	for {
		if m, err := answers.NextMsg(5 * time.Second); err == nil {
			return answered(m)
		}
		if end, err := finished(ctx, nc, command.ID); end != nil || err != nil {
			return end, err
		}
	}
}

// publish publishes until the stream has it. Where only the acknowledgement was lost, the
// command comes twice, and by its id is done once.
func publish(ctx context.Context, nc *nats.Conn, kind string, body []byte, inbox string) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	return connect.Persist(ctx, func(ctx context.Context) error {
		m := nats.NewMsg("perennial.commands." + connect.Account() + "." + kind)
		m.Data = body
		m.Header.Set("Perennial-Reply-To", inbox)
		_, err := js.PublishMsg(ctx, m)
		return err
	})
}

func answered(m *nats.Msg) (json.RawMessage, error) {
	var refused struct{ Error, Reason string }
	if err := json.Unmarshal(m.Data, &refused); err != nil {
		return nil, err
	}
	if refused.Error != "" {
		return nil, errors.New(refused.Error + ": " + refused.Reason)
	}
	return m.Data, nil
}

// finished is what the command came to, or nothing yet. An id that is still on its way is
// not known.
func finished(ctx context.Context, nc *nats.Conn, id string) (json.RawMessage, error) {
	var answer struct{ Result json.RawMessage }
	err := connect.Persist(ctx, func(ctx context.Context) error {
		err := connect.Ask(ctx, nc, "wait", map[string]any{"id": id, "timeout_seconds": 0}, &answer)
		if verb, ok := errors.AsType[connect.VerbError](err); ok && verb.Code == "not_found" {
			return nil
		}
		return err
	})
	return answer.Result, err
}
