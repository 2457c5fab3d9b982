package queue

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
)

func TestServiceAnswersItsVerbsAndSaysWhenNoRunnerRuns(t *testing.T) {
	q := connect(t, startServer(t, t.TempDir()))
	ctx := within(t)
	if _, err := Request(ctx, q.JetStream(), "main", "status", nil); !errors.Is(err, ErrNoRunner) {
		t.Fatal(err)
	}
	waiting := make(chan struct{})
	stop, err := ServeMain(q.JetStream(), "dev", map[string]Handler{
		"status":         func(_ context.Context, data []byte) ([]byte, error) { return append([]byte("ok "), data...), nil },
		"review.resolve": func(context.Context, []byte) ([]byte, error) { return nil, errors.New("no such review") },
		"retry": func(context.Context, []byte) ([]byte, error) {
			return nil, &ServiceError{Code: "not_found", Description: "no such command", Body: []byte(`{"id":"x"}`)}
		},
		"slow": func(ctx context.Context, _ []byte) ([]byte, error) {
			close(waiting)
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
	check(t, err)
	answer, err := Request(ctx, q.JetStream(), "main", "status", []byte("1"))
	check(t, err)
	if string(answer) != "ok 1" {
		t.Fatalf("%s", answer)
	}
	var refused *ServiceError
	if _, err := Request(ctx, q.JetStream(), "main", "retry", nil); !errors.As(err, &refused) || refused.Code != "not_found" || string(refused.Body) != `{"id":"x"}` {
		t.Fatal(err)
	}
	if _, err := Request(ctx, q.JetStream(), "main", "review.resolve", nil); !errors.As(err, &refused) || refused.Code != "failed" || len(refused.Body) == 0 {
		t.Fatal(err)
	}
	if _, err := Request(ctx, q.JetStream(), "main", "unknown", nil); !errors.Is(err, ErrNoRunner) {
		t.Fatal(err)
	}
	slow := make(chan error, 1)
	go func() {
		_, err := Request(ctx, q.JetStream(), "main", "slow", nil)
		slow <- err
	}()
	receive(t, waiting)
	check(t, stop())
	check(t, stop())
	if err := receive(t, slow); !errors.Is(err, ErrStopping) {
		t.Fatalf("a request under way at stop: %v", err)
	}
}

func TestARequestEndsWithTheConnectionOfItsAnswer(t *testing.T) {
	server := startServer(t, t.TempDir())
	q := connect(t, server)
	asked := make(chan struct{})
	stop, err := ServeMain(q.JetStream(), "dev", map[string]Handler{
		"never": func(ctx context.Context, _ []byte) ([]byte, error) {
			close(asked)
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
	check(t, err)
	defer func() { _ = stop() }()
	other, err := Connect(ConnectConfig{URL: server.URL(), Log: quiet()})
	check(t, err)
	defer other.Close()
	answered := make(chan error, 1)
	go func() {
		_, err := Request(within(t), other.JetStream(), "main", "never", nil)
		answered <- err
	}()
	receive(t, asked)
	server.Shutdown()
	if err := receive(t, answered); !errors.Is(err, ErrStopping) {
		t.Fatalf("a request whose connection was lost: %v", err)
	}
}

// TestAnAccountThatIsServedIsFoundAtOnce, over another connection too.
func TestAnAccountThatIsServedIsFoundAtOnce(t *testing.T) {
	server := startServer(t, t.TempDir())
	q, other := connect(t, server), connect(t, server)
	status := func(context.Context, []byte) ([]byte, error) { return []byte("{}"), nil }
	for range 50 {
		stop, err := ServeMain(q.JetStream(), "1.0.0", map[string]Handler{"status": status})
		check(t, err)
		if _, err := Request(within(t), other.JetStream(), "main", "status", nil); err != nil {
			t.Fatal(err)
		}
		check(t, stop())
	}
}

// TestAnErrorFitsItsMessage, whatever it says for people: it stands in a header too.
func TestAnErrorFitsItsMessage(t *testing.T) {
	q := newQueue(t)
	stop, err := ServeMain(q.JetStream(), "1.0.0", map[string]Handler{"cancel": func(_ context.Context, data []byte) ([]byte, error) {
		return nil, &ServiceError{Code: "not_found", Description: string(data) + " is not a command"}
	}})
	check(t, err)
	defer func() { check(t, stop()) }()
	var refused *ServiceError
	_, err = Request(within(t), q.JetStream(), "main", "cancel", []byte(strings.Repeat("\u00e9", int(q.nc.MaxPayload())/3)))
	if !errors.As(err, &refused) || refused.Code != "not_found" || len(refused.Description) > maxDescription+len("\u2026") || !utf8.ValidString(refused.Description) {
		t.Errorf("%.200v", err)
	}
}

// TestANameThatNoServerProvesIsNone: on a server without accounts any client may
// write the header.
func TestANameThatNoServerProvesIsNone(t *testing.T) {
	q := newQueue(t)
	stop, err := ServeMain(q.JetStream(), "1.0.0", map[string]Handler{"status": func(ctx context.Context, _ []byte) ([]byte, error) { return []byte("<" + Caller(ctx) + ">"), nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stop() }()
	m := nats.NewMsg(ServiceSubject("main", "status"))
	m.Header.Set("Nats-Request-Info", `{"acc":"PERENNIAL","user":"root"}`)
	answer, err := q.nc.RequestMsg(m, 10*time.Second)
	if err != nil || string(answer.Data) != "<>" {
		t.Errorf("%v %v", answer, err)
	}
}

// TestNoOtherRequestWaitsForSlowOnes, which go on for clients that have gone.
func TestNoOtherRequestWaitsForSlowOnes(t *testing.T) {
	q := newQueue(t)
	hold, begun := make(chan struct{}), make(chan struct{}, 2*maxServing)
	slow := func(context.Context, []byte) ([]byte, error) {
		begun <- struct{}{}
		<-hold
		return []byte("{}"), nil
	}
	quick := func(context.Context, []byte) ([]byte, error) { return []byte("{}"), nil }
	stop, err := ServeMain(q.JetStream(), "1.0.0", map[string]Handler{"plan": slow, "reconcile": slow, "pause": quick, "status": quick})
	if err != nil {
		t.Fatal(err)
	}
	for range maxServing {
		for _, verb := range []string{"plan", "reconcile"} {
			if err := q.nc.PublishRequest(ServiceSubject("main", verb), q.nc.NewInbox(), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range maxServing {
		receive(t, begun)
	}
	for _, verb := range []string{"pause", "status"} {
		if _, err := Request(within(t), q.JetStream(), "main", verb, nil); err != nil {
			t.Error(err)
		}
	}
	close(hold)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// TestARequestForAnAnswerElsewhereIsLeftAlone: with a deliver subject JetStream sends
// events to a verb, and on a server without accounts a reply may be any subject.
func TestARequestForAnAnswerElsewhereIsLeftAlone(t *testing.T) {
	q := newQueue(t)
	asked := make(chan struct{}, 8)
	stop, err := ServeMain(q.JetStream(), "1.0.0", map[string]Handler{"pause": func(context.Context, []byte) ([]byte, error) {
		asked <- struct{}{}
		return []byte("{}"), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, reply := range []string{"", "perennial.events.main.pwned", "$JS.API.STREAM.PURGE.PERENNIAL_COMMANDS_main", "$KV.X.y", "$JS.ACK.a.b.1.2.3.4.5"} {
		if err := q.nc.PublishMsg(&nats.Msg{Subject: ServiceSubject("main", "pause"), Reply: reply, Data: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := q.nc.Request(ServiceSubject("main", "pause"), nil, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if len(asked) != 1 {
		t.Errorf("it was carried out %d times", len(asked))
	}
}
