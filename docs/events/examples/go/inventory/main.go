// Inventory keeps a file of the proxies that the account owns, with their expiries:
//
//	go run ./docs/events/examples/go/inventory [FILE [CONSUMER]]
//
// It may be killed at any moment. The file names the last event that is in it, and is
// replaced whole before that event is acknowledged.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"perennial/docs/events/examples/go/connect"
)

func main() {
	log.SetFlags(0)
	i := &inventory{file: "inventory.json"}
	if len(os.Args) > 1 {
		i.file = os.Args[1]
	}
	i.durable = consumerOf(i.file)
	if len(os.Args) > 2 {
		i.durable = os.Args[2]
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := i.run(ctx)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

// consumerOf names the durable consumer of a file: two files that share one get half of
// the events each.
func consumerOf(file string) string {
	if path, err := filepath.Abs(file); err == nil {
		file = path
	}
	return "inventory" + regexp.MustCompile(`[^A-Za-z0-9]`).ReplaceAllString(file, "_")
}

type inventory struct {
	file, durable string
	nc            *nats.Conn
	js            jetstream.JetStream
	state
}

func (i *inventory) run(ctx context.Context) (err error) {
	if i.state, err = load(i.file); err != nil {
		return err
	}
	if i.nc, err = connect.NATS(); err != nil {
		return err
	}
	defer i.nc.Close()
	if i.js, err = jetstream.New(i.nc); err != nil {
		return err
	}
	consumer, err := i.consumer(ctx)
	if err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(1))
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if errors.Is(err, jetstream.ErrNoHeartbeat) {
			continue // the server is away, and the connection comes back by itself
		}
		if err != nil {
			return err
		}
		if err := i.take(ctx, m); err != nil {
			return err
		}
	}
}

// take applies an event once, however often it is delivered.
func (i *inventory) take(ctx context.Context, m jetstream.Msg) error {
	var e event
	if err := json.Unmarshal(m.Data(), &e); err != nil {
		return err
	}
	place := e.Data.Ledger
	if place.Seq == i.Seq && place.Hash != i.Hash {
		return i.otherHistory()
	}
	if place.Seq > i.Seq {
		if e.Type == "perennial.command.finished.v1" {
			if err := i.allLines(ctx, m, &e); err != nil {
				return err
			}
		}
		i.apply(e)
		i.Seq, i.Hash = place.Seq, place.Hash
		if err := i.save(i.file); err != nil {
			return err
		}
	}
	return m.Ack() // one that is lost has the event delivered again
}

// allLines adds the lines that the event has no room for: it has 200, the service has all.
func (i *inventory) allLines(ctx context.Context, m jetstream.Msg, e *event) error {
	for len(e.Data.Lines) < e.Data.LinesTotal {
		var page struct{ Lines []line }
		question := map[string]any{"id": e.Data.CommandID, "after": len(e.Data.Lines), "limit": 1000}
		err := connect.Persist(ctx, func(ctx context.Context) error {
			_ = m.InProgress() // it is not to be delivered again meanwhile
			return connect.Ask(ctx, i.nc, "lines", question, &page)
		})
		if err != nil {
			return err
		}
		if len(page.Lines) == 0 {
			return nil
		}
		e.Data.Lines = append(e.Data.Lines, page.Lines...)
	}
	return nil
}

// consumer is the durable consumer, which reads on behind the file.
func (i *inventory) consumer(ctx context.Context) (consumer jetstream.Consumer, err error) {
	same := true
	err = connect.Persist(ctx, func(ctx context.Context) (err error) {
		same, err = i.sameHistory(ctx)
		return err
	})
	if err == nil && !same {
		err = i.otherHistory()
	}
	if err != nil {
		return nil, err
	}
	err = connect.Persist(ctx, func(ctx context.Context) (err error) {
		consumer, err = i.ensure(ctx)
		return err
	})
	return consumer, err
}

// sameHistory reports whether the stream still holds what the file ends with. A restored
// account may have another history behind a point: what was derived from the lost one has
// to go.
func (i *inventory) sameHistory(ctx context.Context) (bool, error) {
	stream, err := i.js.Stream(ctx, connect.Stream())
	if err != nil {
		return false, err
	}
	first := stream.CachedInfo().State.FirstSeq
	if i.Seq+1 < first {
		log.Printf("events up to %d were archived before this program read them", first-1)
	}
	if i.Seq == 0 || i.Seq < first {
		return true, nil
	}
	m, err := stream.GetMsg(ctx, i.Seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return m.Header.Get("Perennial-Hash") == i.Hash, nil
}

func (i *inventory) otherHistory() error {
	return fmt.Errorf("event %d of %s is not the one that %s ends with: remove the file, and this reads anew", i.Seq, connect.Stream(), i.file)
}

// ensure keeps a consumer that fits the file. One that has acknowledged more than the file
// holds belongs to a file that was lost. MaxAckPending 1 keeps the order also when events
// are delivered again.
func (i *inventory) ensure(ctx context.Context) (jetstream.Consumer, error) {
	consumer, err := i.js.Consumer(ctx, connect.Stream(), i.durable)
	if err == nil {
		if consumer.CachedInfo().AckFloor.Stream <= i.Seq {
			return consumer, nil
		}
		err = i.js.DeleteConsumer(ctx, connect.Stream(), i.durable)
	}
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil, err
	}
	return i.js.CreateConsumer(ctx, connect.Stream(), jetstream.ConsumerConfig{
		Durable:        i.durable,
		DeliverPolicy:  jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:    i.Seq + 1,
		FilterSubjects: []string{"perennial.events." + connect.Account() + ".command.finished", "perennial.events." + connect.Account() + ".proxy.*"},
		AckPolicy:      jetstream.AckExplicitPolicy,
		AckWait:        5 * time.Second,
		MaxAckPending:  1,
	})
}
