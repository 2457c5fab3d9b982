package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"perennial/upstream"
)

// orderReads serves the given bodies of an order's detail, one after another.
func orderReads(t *testing.T, wait func(context.Context, time.Duration) error, bodies ...string) (*upstream.Client, *int) {
	n := 0
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body := bodies[min(n, len(bodies)-1)]
		n++
		answering(200, body)(w, r)
	})
	return clientOf(t, base, func(c *upstream.Config) { c.Wait = wait }), &n
}

func orderRead(status, poll string) string {
	return envelope("ok", fmt.Sprintf(`{"order_no":"ord_1","status":%q,"poll_after_seconds":%s}`, status, poll))
}

// AwaitOrder polls while the status is paid or procuring and poll_after_seconds is an integer.
// It never polls early. It stops at null and at an unknown status (trap 27).
func TestTrap26AwaitOrderWaitsPollAfterSeconds(t *testing.T) {
	for name, c := range map[string]struct {
		reads []string
		waits []time.Duration
		last  string
	}{
		"until it ends":      {[]string{orderRead("paid", "3"), orderRead("procuring", "7"), orderRead("completed", "null")}, []time.Duration{3 * time.Second, 7 * time.Second}, "completed"},
		"null stops":         {[]string{orderRead("procuring", "null")}, nil, "procuring"},
		"unknown stops":      {[]string{orderRead("of_tomorrow", "5")}, nil, "of_tomorrow"},
		"at least a second":  {[]string{orderRead("paid", "0"), orderRead("paid", "-4"), orderRead("done", "null")}, []time.Duration{time.Second, time.Second}, "done"},
		"no absurd overflow": {[]string{orderRead("paid", "9223372036854775807"), orderRead("done", "null")}, []time.Duration{365 * 24 * time.Hour}, "done"},
	} {
		var waits []time.Duration
		client, n := orderReads(t, func(_ context.Context, d time.Duration) error { waits = append(waits, d); return nil }, c.reads...)
		o, err := client.AwaitOrder(context.Background(), "ord_1")
		if err != nil || o.Status != c.last || fmt.Sprint(waits) != fmt.Sprint(c.waits) || *n != len(c.waits)+1 {
			t.Errorf("%s: %+v %v, waited %v, %d reads", name, o, err, waits, *n)
		}
	}
}

func TestAwaitOrderEndsWithItsContextKeepingWhatItRead(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	client, _ := orderReads(t, func(ctx context.Context, _ time.Duration) error { cancel(); return ctx.Err() }, orderRead("paid", "3"))
	if o, err := client.AwaitOrder(ctx, "ord_1"); !errors.Is(err, context.Canceled) || o.Status != "paid" {
		t.Errorf("%+v %v", o, err)
	}
	client, _ = orderReads(t, func(context.Context, time.Duration) error { return nil }, orderRead("paid", "3"), envelope("order_not_found", "{}"))
	if o, err := client.AwaitOrder(context.Background(), "ord_1"); !errors.Is(err, upstream.CodeOrderNotFound) || o.Status != "paid" {
		t.Errorf("%+v %v", o, err)
	}
	client, _ = orderReads(t, nil, orderRead("paid", "3600")) // the default wait, which ends with the context
	ctx, cancel = context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := client.AwaitOrder(ctx, "ord_1"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// HTTP removes spaces at the ends of header values, so two different keys could become equal.
func TestTrap05KeysArriveAsTheyWereGiven(t *testing.T) {
	arrived := "nothing"
	c := clientOf(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		arrived = r.Header.Get("Idempotency-Key")
		answering(200, envelope("ok", "{}"))(w, r)
	}))
	w := renewWrite
	for _, w.Key = range []string{" k", "k ", " ", "a\tb", "k\n", "ключ", ""} {
		if r := c.Post(context.Background(), w); r.Sent || r.Failure == "" || arrived != "nothing" {
			t.Errorf("%q arrived as %q: %+v", w.Key, arrived, r)
		}
	}
	w.Key = `a b!"#$%&'()*+,-./:;<=>?@[\]^_{|}~`
	if c.Post(context.Background(), w); arrived != w.Key {
		t.Errorf("%q arrived as %q", w.Key, arrived)
	}
}
