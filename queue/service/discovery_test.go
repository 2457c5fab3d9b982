package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"perennial/queue"
	"perennial/queue/caller"
	"perennial/queue/natstest"
	"perennial/queue/natstest/jstest"
)

// handClock is a clock that only the test moves.
type handClock struct{ moved atomic.Int64 }

func (c *handClock) now() time.Time {
	return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC).Add(time.Duration(c.moved.Load()))
}

// discovered requests a discovery verb like any client, and reads the protocol's answer.
func discovered[A any](t *testing.T, nc *nats.Conn, subject string) (answer A) {
	t.Helper()
	m, err := nc.Request(subject, nil, natstest.Patience)
	natstest.Check(t, err)
	decoder := json.NewDecoder(bytes.NewReader(m.Data))
	decoder.DisallowUnknownFields()
	natstest.Check(t, decoder.Decode(&answer))
	return answer
}

func StatsOf(t *testing.T, nc *nats.Conn, verb string) micro.EndpointStats {
	t.Helper()
	stats := discovered[micro.Stats](t, nc, "$SRV.STATS.perennial-main")
	i := slices.IndexFunc(stats.Endpoints, func(e *micro.EndpointStats) bool { return e.Name == verb })
	if i < 0 || stats.Type != micro.StatsResponseType {
		t.Fatalf("no %s in %+v", verb, stats)
	}
	return *stats.Endpoints[i]
}

func TestStatsCountErrorsAndDurations(t *testing.T) {
	js := jstest.New(t)
	clock, begun, hold := &handClock{}, make(chan struct{}, 2), make(chan struct{})
	stop, err := Serve(t.Context(), js, Service{Account: "main", Version: "1.0.0", Clock: clock.now, Verbs: served(map[string]Handler{
		"plan": func(context.Context, []byte) ([]byte, error) {
			begun <- struct{}{}
			<-hold
			return []byte("{}"), nil
		},
		"status": func(_ context.Context, data []byte) ([]byte, error) {
			if len(data) > 0 {
				return nil, &Error{Code: "not_found", Description: "no such command"}
			}
			return []byte("{}"), nil
		},
		"list": func(context.Context, []byte) ([]byte, error) { return nil, errors.New("the disk is full") },
		"show": func(context.Context, []byte) ([]byte, error) { return make([]byte, js.Conn().MaxPayload()), nil },
	})})
	natstest.Check(t, err)
	defer func() { natstest.Check(t, stop()) }()
	answered := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := Request(natstest.Within(t), js, "main", "plan", nil)
			answered <- err
		}()
	}
	natstest.Receive(t, begun) // both are handled at once
	natstest.Receive(t, begun)
	clock.moved.Add(int64(3 * time.Second))
	close(hold)
	natstest.Check(t, natstest.Receive(t, answered))
	natstest.Check(t, natstest.Receive(t, answered))
	ask := func(verb, data string) {
		_, _ = js.Conn().Request(queue.ServiceSubject("main", verb), []byte(data), natstest.Patience)
	}
	ask("status", "")
	ask("status", "x")
	ask("list", "")
	natstest.Check(t, js.Conn().Publish(queue.ServiceSubject("main", "show"), nil)) // it names no inbox
	ask("show", "")
	for verb, want := range map[string]micro.EndpointStats{
		"plan":   {NumRequests: 2, ProcessingTime: 6 * time.Second, AverageProcessingTime: 3 * time.Second},
		"status": {NumRequests: 2, NumErrors: 1, LastError: "not_found:no such command"},
		"list":   {NumRequests: 1, NumErrors: 1, LastError: "failed:the disk is full"},
	} {
		want.Name, want.Subject, want.QueueGroup = verb, queue.ServiceSubject("main", verb), "q"
		if have := StatsOf(t, js.Conn(), verb); have.Name != want.Name || have.Subject != want.Subject || have.QueueGroup != want.QueueGroup ||
			have.NumRequests != want.NumRequests || have.NumErrors != want.NumErrors || have.LastError != want.LastError ||
			have.ProcessingTime != want.ProcessingTime || have.AverageProcessingTime != want.AverageProcessingTime {
			t.Errorf("%+v\nand it should be\n%+v", have, want)
		}
	}
	if have := StatsOf(t, js.Conn(), "show"); have.NumRequests != 2 || have.NumErrors != 2 || !strings.HasPrefix(have.LastError, codeTooLarge+":") {
		t.Errorf("an answer that is too long: %+v", have)
	}
}

func TestAServiceIsFoundWithTheMetadataOfItsVerbs(t *testing.T) {
	js := jstest.New(t)
	ok := func(context.Context, []byte) ([]byte, error) { return []byte("{}"), nil }
	long := map[string]string{}
	serve := func() (stop func() error) {
		verbs := served(map[string]Handler{"review.resolve": ok, "status": ok})
		for i, v := range verbs {
			verbs[i].Metadata = map[string]string{"request_schema": v.Name}
			if v.Name == "status" && len(long) > 0 {
				verbs[i].Metadata = long
			}
		}
		stop, err := Serve(t.Context(), js, Service{Account: "main", Version: "dev", Verbs: verbs, Clock: time.Now})
		natstest.Check(t, err)
		return stop
	}
	stop := serve()
	info := discovered[micro.Info](t, js.Conn(), "$SRV.INFO")
	if info.Name != "perennial-main" || info.Version != "0.0.0" || info.Metadata["version"] != "dev" || info.Type != micro.InfoResponseType || len(info.Endpoints) != 2 {
		t.Fatalf("%+v", info)
	}
	for _, e := range info.Endpoints {
		if verb := strings.ReplaceAll(e.Name, "-", "."); e.Subject != queue.ServiceSubject("main", verb) || e.QueueGroup != ServiceQueue || e.Metadata["request_schema"] != verb {
			t.Errorf("%+v", e)
		}
	}
	if ping := discovered[micro.Ping](t, js.Conn(), "$SRV.PING.perennial-main."+info.ID); ping.ID != info.ID || ping.Type != micro.PingResponseType {
		t.Errorf("%+v", ping)
	}
	natstest.Check(t, stop())
	if _, err := js.Conn().Request("$SRV.PING.perennial-main", nil, natstest.Patience); !errors.Is(err, nats.ErrNoResponders) {
		t.Errorf("a service that has stopped: %v", err)
	}
	long["request_schema"] = strings.Repeat("x", int(js.Conn().MaxPayload()))
	stop = serve()
	if info := discovered[micro.Info](t, js.Conn(), "$SRV.INFO"); len(info.Endpoints) != 2 || info.Endpoints[0].Metadata != nil {
		t.Errorf("metadata that no message holds: %+v", info)
	}
	natstest.Check(t, stop())
}

// No request makes the runner publish where only it may.
func TestDiscoveryAnswersOnInboxesAlone(t *testing.T) {
	js := jstest.New(t)
	stop, err := ServeMain(js, "1.0.0", nil)
	natstest.Check(t, err)
	defer func() { natstest.Check(t, stop()) }()
	heard, err := js.Conn().SubscribeSync("perennial.>")
	natstest.Check(t, err)
	natstest.Check(t, js.Conn().PublishRequest("$SRV.PING", queue.EventSubject("main", "order.delivered"), nil))
	discovered[micro.Ping](t, js.Conn(), "$SRV.PING") // over the same subscription, after it
	if n, _, err := heard.Pending(); n != 0 || err != nil {
		t.Errorf("%d messages, %v", n, err)
	}
}

// nats.go drops requests while too many wait to be taken in, and no handler sees them.
func TestDroppedRequestsAreErrors(t *testing.T) {
	js := jstest.New(t)
	clock, taken, release := &handClock{}, make(chan struct{}, 2*caller.MaxWaiting), make(chan struct{})
	var held atomic.Bool
	stop, err := Serve(t.Context(), js, Service{Account: "main", Version: "1.0.0", Clock: func() time.Time {
		if held.Load() { // a request is taken in
			taken <- struct{}{}
			<-release
		}
		return clock.now()
	}, Verbs: served(map[string]Handler{"status": func(context.Context, []byte) ([]byte, error) { return []byte("{}"), nil }})})
	natstest.Check(t, err)
	held.Store(true)
	ask := func() {
		natstest.Check(t, js.Conn().PublishRequest(queue.ServiceSubject("main", "status"), "_INBOX.none", nil))
	}
	ask()
	natstest.Receive(t, taken)
	const more = 7
	for range caller.MaxWaiting - 1 + more {
		ask()
	}
	natstest.Check(t, js.Conn().Flush()) // they have arrived at this connection
	if have := StatsOf(t, js.Conn(), "status"); have.NumErrors != more || have.NumRequests != more || !strings.HasPrefix(have.LastError, codeBusy+":") {
		t.Errorf("%+v", have)
	}
	held.Store(false)
	close(release)
	natstest.Check(t, stop())
}
