package crashtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"perennial/cmd/perennial/internal/cli"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/cmd/perennial/internal/verbs"
	"perennial/queue"
)

// victim is everything of an account that no other user may change.
type victim struct {
	Events, Commands, Dead uint64
	Ready                  string
}

// seen reads the account as its own operator and over HTTP.
func (w *world) seen(line daemon.ReadyLine, ops *role, account string) (v victim) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	state := func(stream string) jetstream.StreamState {
		s, err := ops.js.Stream(ctx, stream)
		if err != nil {
			w.t.Fatalf("%s: %v", stream, err)
		}
		return s.CachedInfo().State
	}
	v.Events = state(queue.EventsStream(account)).LastSeq
	v.Commands, v.Dead = state(queue.CommandsStream(account)).LastSeq, state(queue.DeadStream(account)).LastSeq
	v.Ready, _ = w.get(line.HTTP + "/readyz")
	return v
}

// The test plays the attacks of a penetration test: reply subjects, deliver subjects, verbs,
// streams, leases, inboxes, other accounts.
func TestNoRoleReachesWhatIsNotItsOwn(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world, run *process, line daemon.ReadyLine) {
		prod, sub, view, theirs := w.as(line, "prod"), w.as(line, "sub"), w.as(line, "view"), w.as(line, "other-ops")
		await(t, "the start of other is published", func() bool { return w.seen(line, theirs, "other").Events == 3 }) // with the fact from when its schedule counts
		before := w.seen(line, theirs, "other")
		spied := spies(t, w.as(line, "sub2")) // sends no request itself, so that nothing may arrive
		w.attackByReply(prod)
		w.attackByVerbs(prod, sub, view)
		w.attackByJetStream(sub, view, prod)
		w.as(line, "ops").cannot("$KV."+queue.WebhooksBucket("other")+".billing", "{}")
		w.attackByDeliverSubject(line, sub, view)
		if after := w.seen(line, theirs, "other"); after != before {
			t.Errorf("other was %+v and is %+v", before, after)
		}
		if err := w.as(line, "sub2").Flush(); err != nil {
			t.Fatal(err)
		}
		for _, s := range spied {
			if m, err := s.NextMsg(time.Millisecond); err == nil { // every message has arrived by now
				t.Errorf("a stranger reads %s: %.100s", m.Subject, m.Data)
			}
		}
		for _, account := range []string{"main", "other"} { // the account still works, and executes what it received
			user := map[string]string{"main": "ops", "other": "other-ops"}[account]
			w.mustCLI(slices.Concat([]string{"order", "--item", "off_us_1=1", "--id", "after", "--wait", "-a", account}, w.login(line, user))...)
		}
		w.readySays(line, ready)
		if code := run.terminate(); code != cli.ExitDone {
			t.Errorf("exit %d\n%s", code, run.stderr)
		}
	})
}

// spies subscribes to subjects on which no message of another user may arrive.
func spies(t testing.TB, users ...*role) (all []*nats.Subscription) {
	t.Helper()
	for _, r := range users {
		for _, subject := range []string{">", "_INBOX.>", "perennial.events.other.>", "perennial.svc.>", "perennial.commands.>", "$KV.>", "$JS.>"} {
			s, err := r.SubscribeSync(subject)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, s)
		}
		if err := r.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// attackByReply publishes commands whose reply subject would make the stream's acknowledgement an
// attack.
func (w *world) attackByReply(prod *role) {
	w.t.Helper()
	for i, reply := range []string{
		"perennial.events.other.pwned", "$KV." + queue.LeaseBucket + ".other", "$KV." + queue.LeaseBucket + ".main", "perennial.commands.other.order.create",
		"$KV." + queue.WebhooksBucket("main") + ".billing",
		"perennial.svc.other.pause", "perennial.svc.main.pause", "perennial.dead.other", "perennial.js.other.CONSUMER.CREATE.PERENNIAL_EVENTS_other",
		"$JS.API.STREAM.PURGE.PERENNIAL_COMMANDS_other", "$JS.API.STREAM.DELETE.PERENNIAL_EVENTS_other",
		"$JS.ACK.PERENNIAL_COMMANDS_other.perennial-order-create.1.1.1.1.1", "_R_.x.y",
	} {
		body := fmt.Sprintf(`{"id":"reply-%d","duration_days":30,"proxy_ids":["px_1"],"expect_expires_at":{"px_1":"2020-01-01T00:00:00Z"}}`, i)
		for _, subject := range []string{"perennial.commands.main.proxy.renew", "perennial.svc.main.status"} {
			if err := prod.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Data: []byte(body)}); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	if err := prod.Flush(); err != nil {
		w.t.Fatal(err)
	}
}

// attackByVerbs calls verbs without the right role, under the user's own name and under a forged
// one.
func (w *world) attackByVerbs(users ...*role) {
	w.t.Helper()
	for _, r := range users {
		for _, v := range verbs.All() {
			if !v.Changes() {
				continue
			}
			r.cannot("perennial.svc.main."+v.Name, `{"id":"x","by":"root","reason":"mine"}`)
		}
		r.cannot("perennial.svc.other.balance", "")
		r.cannot("perennial.svc.other.pause", `{"by":"root","reason":"mine"}`)
		r.cannot("$SRV.PING", "")
		forged := nats.NewMsg("perennial.svc.main.pause")
		forged.Header.Set("Nats-Request-Info", `{"acc":"PERENNIAL","user":"perennial"}`)
		forged.Data = []byte(`{"by":"root","reason":"mine"}`)
		r.cannotSend(forged)
	}
}

// attackByJetStream writes, deletes and reads what belongs to the runner or to the account other.
func (w *world) attackByJetStream(users ...*role) {
	w.t.Helper()
	for _, r := range users {
		for _, subject := range []string{
			"perennial.events.main.order.delivered", "perennial.events.other.order.delivered", "perennial.dead.main", "perennial.commands.other.order.create",
			"$KV." + queue.LeaseBucket + ".main", "$KV." + queue.LeaseBucket + ".other",
			"$KV." + queue.WebhooksBucket("main") + ".billing", "$KV." + queue.WebhooksBucket("other") + ".billing",
		} {
			r.cannot(subject, "{}")
		}
		for _, stream := range []string{queue.EventsStream("main"), queue.EventsStream("other"), queue.CommandsStream("main"), queue.CommandsStream("other"), "KV_" + queue.LeaseBucket, "KV_" + queue.WebhooksBucket("main")} {
			for _, op := range []string{"STREAM.DELETE.", "STREAM.PURGE.", "STREAM.UPDATE.", "STREAM.MSG.DELETE.", "STREAM.SNAPSHOT."} {
				r.cannot("$JS.API."+op+stream, `{"seq":1,"name":"`+stream+`","deliver_subject":"_INBOX.x"}`)
			}
		}
		r.cannot("$JS.API.STREAM.CREATE.MINE", `{"name":"MINE","subjects":["perennial.events.other.>"]}`)
		r.cannot("$JS.API.STREAM.CREATE.MINE", `{"name":"MINE","mirror":{"name":"PERENNIAL_EVENTS_other"}}`)
		for _, op := range []string{"STREAM.INFO.", "DIRECT.GET.", "STREAM.MSG.GET.", "CONSUMER.NAMES.", "CONSUMER.LIST."} {
			r.cannot("$JS.API."+op+queue.EventsStream("other"), `{"seq":1}`)
		}
		r.cannot("$JS.API.STREAM.LIST", "")
	}
}

// attackByDeliverSubject asks JetStream to push events to another account's verb. It also tries to
// take over another subscriber's consumer.
func (w *world) attackByDeliverSubject(line daemon.ReadyLine, sub, view *role) {
	w.t.Helper()
	create := func(r *role, subject, stream string, config map[string]any) {
		body, err := json.Marshal(map[string]any{"stream_name": stream, "config": config})
		if err != nil {
			w.t.Fatal(err)
		}
		r.cannot(subject, string(body))
	}
	for _, target := range []string{"perennial.svc.other.resume", "perennial.svc.main.pause", "perennial.commands.other.order.create", "_INBOX.mine"} {
		push := map[string]any{"deliver_subject": target, "ack_policy": "none", "deliver_policy": "all", "name": "p", "durable_name": "p"}
		for _, stream := range []string{queue.EventsStream("main"), queue.EventsStream("other"), queue.CommandsStream("other")} {
			for _, op := range []string{"CONSUMER.CREATE." + stream, "CONSUMER.CREATE." + stream + ".p", "CONSUMER.CREATE." + stream + ".p.perennial.events.main.>", "CONSUMER.DURABLE.CREATE." + stream + ".p"} {
				create(sub, "$JS.API."+op, stream, push)
				create(view, "perennial.js.main."+op, stream, push)
			}
		}
	}
	// The stream in the body differs from the stream in the subject.
	create(sub, "$JS.API.CONSUMER.CREATE.PERENNIAL_EVENTS_main", queue.EventsStream("other"), map[string]any{"ack_policy": "none"})
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	config := jetstream.ConsumerConfig{Durable: "mine", AckPolicy: jetstream.AckExplicitPolicy}
	if _, err := sub.js.CreateConsumer(ctx, queue.EventsStream("main"), config); err != nil {
		w.t.Fatal(err)
	}
	if _, err := view.js.CreateOrUpdateConsumer(ctx, queue.EventsStream("main"), config); err == nil {
		w.t.Error("another user changed a subscriber's consumer")
	}
	if err := view.js.DeleteConsumer(ctx, queue.EventsStream("main"), "mine"); err == nil {
		w.t.Error("another user deleted a subscriber's consumer")
	}
	if err := view.js.DeleteConsumer(ctx, queue.EventsStream("main"), "none"); !errors.Is(err, jetstream.ErrConsumerNotFound) {
		w.t.Errorf("a consumer that is not there: %v", err)
	}
	if _, err := sub.js.Consumer(ctx, queue.EventsStream("main"), "mine"); err != nil {
		w.t.Error(err)
	}
	ops := w.as(line, "ops") // the operator may delete consumers
	stream, err := ops.js.Stream(ctx, queue.EventsStream("main"))
	if err != nil {
		w.t.Fatal(err)
	}
	names := []string{}
	for name := range stream.ConsumerNames(ctx).Name() {
		names = append(names, name)
	}
	if !slices.Contains(names, "mine") {
		w.t.Errorf("an operator sees %v", names)
	}
	if err := ops.js.DeleteConsumer(ctx, queue.EventsStream("main"), "mine"); err != nil {
		w.t.Errorf("an operator: %v", err)
	}
}
