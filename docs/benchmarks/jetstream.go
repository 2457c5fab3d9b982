// A plain JetStream worker: it pulls, sends, acknowledges, and keeps nothing: no result and
// no ledger. It is about the limit of what the queue alone allows.

package main

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/synadia-io/orbit.go/jetstreamext"
)

const (
	streamName   = "JOBS"
	consumerName = "worker"
	// ackWait is after how long without an acknowledgement a job is delivered again: the
	// same that River has.
	ackWait      = riverStuck
	publishBatch = 500 // messages of one atomic batch
)

type jetStreamStore struct {
	conn *nats.Conn
	js   jetstream.JetStream
}

func openJetStream(url string) (store, error) {
	conn, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(conn)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &jetStreamStore{conn: conn, js: js}, nil
}

func (s *jetStreamStore) close() { s.conn.Close() }

func (s *jetStreamStore) prepare(ctx context.Context) error {
	if err := s.js.DeleteStream(ctx, streamName); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	stream, err := s.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: streamName, Subjects: []string{"jobs"}, Storage: jetstream.FileStorage, Retention: jetstream.WorkQueuePolicy, AllowAtomicPublish: true,
	})
	if err != nil {
		return err
	}
	_, err = stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: consumerName, AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxDeliver: -1, MaxAckPending: 1024,
	})
	return err
}

func (s *jetStreamStore) produce(ctx context.Context, first, jobs int) error {
	for n := first; n < first+jobs; n += publishBatch {
		var batch []*nats.Msg
		for i := n; i < min(n+publishBatch, first+jobs); i++ {
			m := nats.NewMsg("jobs")
			m.Data = []byte(strconv.Itoa(i))
			batch = append(batch, m)
		}
		if _, err := jetstreamext.PublishMsgBatch(ctx, s.js, batch); err != nil {
			return err
		}
	}
	return nil
}

func (s *jetStreamStore) work(ctx context.Context, w *worker) error {
	consumer, err := s.js.Consumer(ctx, streamName, consumerName)
	if err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(w.concurrency))
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, messages.Stop)
	next := make(chan jetstream.Msg)
	var all sync.WaitGroup
	for range w.concurrency {
		all.Go(func() {
			for m := range next {
				carryOutMessage(ctx, w, m)
			}
		})
	}
	for {
		m, err := messages.Next()
		if err != nil {
			break // stopped
		}
		next <- m
	}
	close(next)
	all.Wait()
	return nil
}

// carryOutMessage acknowledges a job that succeeded. One that did not is delivered again.
func carryOutMessage(ctx context.Context, w *worker, m jetstream.Msg) {
	n, err := strconv.Atoi(string(m.Data()))
	if err != nil {
		_ = m.Term()
		return
	}
	if _, err := w.do(ctx, n); err != nil {
		_ = m.Nak()
		return
	}
	_ = m.Ack()
}

// done counts what was acknowledged: a work queue removes it.
func (s *jetStreamStore) done(ctx context.Context) (int, error) {
	stream, err := s.js.Stream(ctx, streamName)
	if err != nil {
		return 0, err
	}
	state := stream.CachedInfo().State
	return int(state.LastSeq - state.Msgs), nil
}

// serveNATS is a NATS server with JetStream in this process, until ctx ends.
func serveNATS(ctx context.Context, dir string, syncAlways bool, ready func(url string) error) error {
	s, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: dir, SyncAlways: syncAlways, NoLog: true, NoSigs: true,
	})
	if err != nil {
		return err
	}
	s.Start()
	defer func() {
		s.Shutdown()
		s.WaitForShutdown()
	}()
	if !s.ReadyForConnections(10 * time.Second) {
		return errors.New("the NATS server did not start within 10 s")
	}
	if err := ready(s.ClientURL()); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
