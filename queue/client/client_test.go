package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"perennial/queue"
	"perennial/queue/client"
)

// A runner is killed while its clients wait, and restarted. Each client gets the result of its
// command, and each command is paid for once.
func TestDoneOnceOverAKill(t *testing.T) {
	t.Parallel()
	const n = 20
	r := &runner{dir: t.TempDir()}
	check(t, r.start())
	defer func() { r.kill() }()
	main, ctx := clientOf(t, r), within(t)
	ends := make(chan error, n)
	for i := range n {
		go func() {
			end, err := main.Do(ctx, client.Order{ID: fmt.Sprintf("o-%d", i), DurationDays: 30, Items: []client.Item{{OfferCode: "off_us_dallas", Quantity: 1}}})
			if err == nil && (!end.Done() || len(end.Lines) != 1 || end.Totals.ChargedCents != 300) {
				err = fmt.Errorf("%+v", end)
			}
			ends <- err
		}()
	}
	check(t, <-ends) // one has ended, and others are in progress
	r.kill()
	check(t, r.start())
	for range n - 1 {
		check(t, <-ends)
	}
	charged, over := int64(0), map[string]bool{}
	for event, err := range main.Events(ctx, client.Position{}) {
		check(t, err)
		if event.Booked != nil {
			charged += event.Booked.ChargedCents
		}
		if event.Type == client.TypeFinished {
			if over[event.CommandID] = true; len(over) == n {
				break
			}
		}
	}
	if charged != n*300 {
		t.Errorf("%d cents are booked", charged)
	}
}

func TestAnotherContentUnderAnIDIsRefused(t *testing.T) {
	main, ctx := clientOf(t, shared), within(t)
	order := client.Order{ID: "conflict-1", DurationDays: 30, Items: []client.Item{{OfferCode: "off_us_dallas", Quantity: 1}}, Labels: map[string]string{"team": "a"}}
	end, err := main.Do(ctx, order)
	check(t, err)
	if end.Labels["team"] != "a" {
		t.Errorf("labels %v", end.Labels)
	}
	order.Items[0].Quantity = 2
	_, err = main.Do(ctx, order)
	refused, ok := errors.AsType[*client.RefusedError](err)
	if !ok || refused.Code != "conflict" || refused.ID != "conflict-1" || refused.Reason == "" {
		t.Errorf("of another content: %v", err)
	}
}

func TestWhatIsRefusedHasAnEnd(t *testing.T) {
	main, ctx := clientOf(t, shared), within(t)
	end, err := main.Do(ctx, client.Order{ID: "refused-1", DurationDays: 31, Items: []client.Item{{OfferCode: "off_us_dallas", Quantity: 1}}})
	check(t, err)
	if end.Done() || end.State != "rejected" || end.Code != "invalid" || end.Reason == "" {
		t.Errorf("%+v", end)
	}
}

func TestAllLinesOfALargeOrder(t *testing.T) {
	main, ctx := clientOf(t, shared), within(t)
	end, err := main.Do(ctx, client.Order{ID: "large-1", DurationDays: 30, Items: []client.Item{{OfferCode: "off_us_dallas", Quantity: 300}}})
	check(t, err)
	if len(end.Lines) >= 300 || end.LinesTotal != 300 {
		t.Fatalf("%d of %d lines", len(end.Lines), end.LinesTotal)
	}
	seen := map[string]bool{}
	for line, err := range main.Lines(ctx, end) {
		check(t, err)
		seen[line.ProxyID] = true
	}
	if len(seen) != 300 {
		t.Errorf("%d proxies", len(seen))
	}
	for range main.Lines(ctx, end) {
		break
	}
}

// Such an error is not retried until the context ends.
func TestWhatCannotBeIsAnErrorAtOnce(t *testing.T) {
	t.Parallel()
	main, ctx := clientOf(t, shared), within(t)
	q, err := queue.Connect(queue.ConnectConfig{URL: shared.url})
	check(t, err)
	t.Cleanup(q.Close)
	other, err := client.New(q, "other")
	check(t, err)
	renewal := client.Renewal{ID: "r", ProxyIDs: []string{"px_us_1"}, DurationDays: 30}
	_, ofOther := other.Do(ctx, renewal)
	_, unknown := main.Wait(ctx, "never-published")
	_, noID := main.Do(ctx, client.Order{})
	_, tooLarge := main.Do(ctx, client.Order{ID: "x", Labels: map[string]string{"a": strings.Repeat("x", 200<<10)}})
	for what, errs := range map[string][2]error{
		"an account that is not configured": {ofOther, queue.ErrNoAccount},
		"published to it":                   {other.Publish(ctx, renewal), queue.ErrNoAccount},
		"an id that never came":             {unknown, client.ErrUnknown},
	} {
		if !errors.Is(errs[0], errs[1]) {
			t.Errorf("%s: %v", what, errs[0])
		}
	}
	if noID == nil || tooLarge == nil || main.Publish(ctx, nil) == nil || ctx.Err() != nil {
		t.Errorf("no id: %v; too large: %v; %v", noID, tooLarge, ctx.Err())
	}
	if _, err := client.New(q, "no.name"); err == nil {
		t.Error("a name that cannot be a subject is taken")
	}
	lost := &runner{dir: t.TempDir()}
	check(t, lost.start())
	away := clientOf(t, lost)
	lost.kill()
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if _, err := away.Do(short, renewal); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while NATS is away: %v", err)
	}
}

func TestEventsGoOnFromAPosition(t *testing.T) {
	main, ctx := clientOf(t, shared), within(t)
	_, err := main.Do(ctx, client.Renewal{ID: "position-1", ProxyIDs: []string{"px_us_4"}, DurationDays: 30})
	check(t, err)
	var all []client.Event
	for event, err := range main.Events(ctx, client.Position{}) {
		check(t, err)
		if all = append(all, event); event.CommandID == "position-1" && event.Type == client.TypeFinished {
			break
		}
	}
	kept, want := all[2].Position, all[3:]
	for event, err := range main.Events(ctx, kept) {
		check(t, err)
		if event.ID != want[0].ID || event.Position != want[0].Position || !event.Time.Equal(want[0].Time) {
			t.Fatalf("%+v and not %+v", event, want[0])
		}
		if want = want[1:]; len(want) == 0 {
			break
		}
	}
	kept.Hash = strings.Repeat("0", 64)
	for what, from := range map[string]client.Position{"another hash": kept, "behind the end": {Seq: 1 << 40, Hash: kept.Hash}} {
		for _, err := range main.Events(ctx, from) {
			if !errors.Is(err, client.ErrOtherHistory) {
				t.Errorf("%s: %v", what, err)
			}
			break
		}
	}
	if _, err := all[0].Finished(); err == nil {
		t.Error("an event of another type is a command's end")
	}
}

// The types have exactly the fields of the schemas of commands and results.
func TestTheTypesAreThoseOfTheSchemas(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct {
		value any
		not   []string
	}{
		"order.create": {client.Order{}, []string{"offer_code", "quantity"}}, // the other way to name one offer
		"proxy.renew":  {client.Renewal{}, nil},
		"command.finished": {client.Finished{}, []string{
			"ledger", "operation_id", "operations_total", "reply_to", "reviews", "stream_sequence", "trace_id", "traceparent", "tracestate", "booked",
		}},
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", "events", name+".json"))
		check(t, err)
		var schema struct {
			Properties map[string]json.RawMessage
		}
		check(t, json.Unmarshal(text, &schema))
		if data, ok := schema.Properties["data"]; ok { // an event
			var parts struct{ AllOf []json.RawMessage }
			check(t, json.Unmarshal(data, &parts))
			schema.Properties = nil
			for _, part := range parts.AllOf {
				check(t, json.Unmarshal(part, &schema))
			}
		}
		var have []string
		for field := range reflect.TypeOf(of.value).Fields() {
			tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			have = append(have, tag)
			if _, ok := schema.Properties[tag]; !ok {
				t.Errorf("%s has no field %s", name, tag)
			}
		}
		for property := range schema.Properties {
			if !slices.Contains(have, property) && !slices.Contains(of.not, property) {
				t.Errorf("%T lacks %s of %s", of.value, property, name)
			}
		}
	}
}
