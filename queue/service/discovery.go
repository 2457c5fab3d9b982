package service

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/nats-io/nuid"

	"perennial/queue"
	"perennial/queue/caller"
)

// discovery is one instance of a service, according to version 1 of the NATS service protocol.
// micro.Service would measure the time until the handler returns, but here other goroutines send
// the replies later. discovery therefore replaces micro.Service
// (docs/decisions/0018-the-service-counts-for-itself.md).
type discovery struct {
	js          *queue.JetStream
	identity    micro.ServiceIdentity
	description string
	clock       func() time.Time
	started     time.Time

	mu        sync.Mutex
	endpoints []*endpoint
	asked     []*nats.Subscription // subscriptions of the discovery verbs
	stopped   bool
}

type endpoint struct {
	info micro.EndpointInfo
	sub  *nats.Subscription

	mu      sync.Mutex
	stats   micro.EndpointStats
	dropped int // requests that the client library dropped, as far as stats includes them
}

func discoverable(js *queue.JetStream, name, version, description string, metadata map[string]string, clock func() time.Time) (*discovery, error) {
	d := &discovery{
		js: js, description: description, clock: clock, started: clock().UTC(),
		identity: micro.ServiceIdentity{Name: name, ID: nuid.Next(), Version: version, Metadata: metadata},
	}
	for verb, answer := range map[micro.Verb]func() []byte{micro.PingVerb: d.ping, micro.InfoVerb: d.info, micro.StatsVerb: d.stats} {
		if err := d.answers(verb, answer); err != nil {
			return nil, errors.Join(err, d.Stop())
		}
	}
	return d, nil
}

// answers serves a discovery verb. It subscribes to three subjects: for all services, for
// services of this name, and for this instance.
func (d *discovery) answers(verb micro.Verb, answer func() []byte) error {
	for _, of := range [][2]string{{}, {d.identity.Name}, {d.identity.Name, d.identity.ID}} {
		subject, err := micro.ControlSubject(verb, of[0], of[1])
		if err != nil {
			return err
		}
		sub, err := d.js.Conn().Subscribe(subject, func(m *nats.Msg) {
			if !caller.MayAnswer(m.Reply) {
				return
			}
			if err := m.Respond(answer()); err != nil {
				d.js.Log().WithError(err).WithField("subject", m.Subject).Warn("answer not sent")
			}
		})
		if err != nil {
			return fmt.Errorf("subscribe to %s: %w", subject, err)
		}
		d.asked = append(d.asked, sub)
	}
	return nil
}

// add serves a verb. handle must return immediately, and must end each request.
func (d *discovery) add(verb, subject string, metadata map[string]string, handle func(*request)) error {
	e := &endpoint{info: micro.EndpointInfo{Name: strings.ReplaceAll(verb, ".", "-"), Subject: subject, QueueGroup: ServiceQueue, Metadata: metadata}}
	e.stats = micro.EndpointStats{Name: e.info.Name, Subject: subject, QueueGroup: ServiceQueue}
	var err error
	e.sub, err = d.js.Conn().QueueSubscribe(subject, ServiceQueue, func(m *nats.Msg) {
		handle(&request{Msg: m, endpoint: e, clock: d.clock, came: d.clock()})
	})
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.endpoints = append(d.endpoints, e)
	return e.sub.SetPendingLimits(caller.MaxWaiting, maxWaitingBytes)
}

// Stop removes the subscriptions. Requests that were already received are still handled.
func (d *discovery) Stop() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stopped {
		return nil
	}
	subs := slices.Clone(d.asked)
	for _, e := range d.endpoints {
		subs = append(subs, e.sub)
	}
	for _, sub := range subs {
		if err := sub.Drain(); err != nil && !errors.Is(err, nats.ErrConnectionClosed) {
			return fmt.Errorf("take back %s: %w", sub.Subject, err)
		}
	}
	d.stopped = true
	return nil
}

func (d *discovery) ping() []byte {
	text, _ := json.Marshal(micro.Ping{ServiceIdentity: d.identity, Type: micro.PingResponseType}) // contains text only, so encoding cannot fail
	return text
}

// info returns the reply to an INFO request. It includes the endpoints' metadata unless the
// message would then exceed the server's limit.
func (d *discovery) info() []byte {
	info := micro.Info{ServiceIdentity: d.identity, Type: micro.InfoResponseType, Description: d.description, Endpoints: []micro.EndpointInfo{}}
	d.mu.Lock()
	for _, e := range d.endpoints {
		info.Endpoints = append(info.Endpoints, e.info)
	}
	d.mu.Unlock()
	text, _ := json.Marshal(info) // contains text only, so encoding cannot fail
	if int64(len(text)) <= d.js.Conn().MaxPayload() {
		return text
	}
	for i := range info.Endpoints {
		info.Endpoints[i].Metadata = nil
	}
	text, _ = json.Marshal(info)
	return text
}

func (d *discovery) stats() []byte {
	stats := micro.Stats{ServiceIdentity: d.identity, Type: micro.StatsResponseType, Started: d.started, Endpoints: []*micro.EndpointStats{}}
	d.mu.Lock()
	for _, e := range d.endpoints {
		stats.Endpoints = append(stats.Endpoints, e.counted())
	}
	d.mu.Unlock()
	text, _ := json.Marshal(stats) // contains text and numbers only, so encoding cannot fail
	return text
}

// counted returns a copy of the endpoint's statistics. They include the requests that were
// dropped because too many waited.
func (e *endpoint) counted() *micro.EndpointStats {
	e.mu.Lock()
	defer e.mu.Unlock()
	if dropped, err := e.sub.Dropped(); err == nil && dropped > e.dropped {
		e.stats.NumRequests += dropped - e.dropped
		e.stats.NumErrors += dropped - e.dropped
		e.stats.LastError = codeBusy + ":requests were dropped: too many waited"
		e.dropped = dropped
	}
	stats := e.stats
	if stats.NumRequests > 0 {
		stats.AverageProcessingTime = stats.ProcessingTime / time.Duration(stats.NumRequests)
	}
	return &stats
}

type request struct {
	*nats.Msg

	endpoint *endpoint
	clock    func() time.Time
	came     time.Time
	ended    bool
}

// end counts the request and its duration. It is called before the reply is sent: a client that
// has the reply must find the request counted. failure describes an error; it is "" if there was
// none. If the reply cannot be sent, end is called a second time, with the failure.
func (r *request) end(failure string) {
	e := r.endpoint
	e.mu.Lock()
	defer e.mu.Unlock()
	if !r.ended {
		r.ended = true
		e.stats.NumRequests++
		e.stats.ProcessingTime += max(r.clock().Sub(r.came), 0)
	}
	if failure != "" {
		e.stats.NumErrors++
		e.stats.LastError = failure
	}
}
