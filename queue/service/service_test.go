package service

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"perennial/queue"
	"perennial/queue/natstest"
	"perennial/queue/natstest/jstest"
)

func TestServiceAnswersItsVerbsAndSaysWhenNoRunnerRuns(t *testing.T) {
	js := jstest.New(t)
	ctx := natstest.Within(t)
	if _, err := Request(ctx, js, "main", "status", nil); !errors.Is(err, ErrNoRunner) {
		t.Fatal(err)
	}
	waiting := make(chan struct{})
	stop, err := ServeMain(js, "dev", map[string]Handler{
		"status":         func(_ context.Context, data []byte) ([]byte, error) { return append([]byte("ok "), data...), nil },
		"review.resolve": func(context.Context, []byte) ([]byte, error) { return nil, errors.New("no such review") },
		"retry": func(context.Context, []byte) ([]byte, error) {
			return nil, &Error{Code: "not_found", Description: "no such command", Body: []byte(`{"id":"x"}`)}
		},
		"slow": func(ctx context.Context, _ []byte) ([]byte, error) {
			close(waiting)
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
	natstest.Check(t, err)
	answer, err := Request(ctx, js, "main", "status", []byte("1"))
	natstest.Check(t, err)
	if string(answer) != "ok 1" {
		t.Fatalf("%s", answer)
	}
	var refused *Error
	if _, err := Request(ctx, js, "main", "retry", nil); !errors.As(err, &refused) || refused.Code != "not_found" || string(refused.Body) != `{"id":"x"}` {
		t.Fatal(err)
	}
	if _, err := Request(ctx, js, "main", "review.resolve", nil); !errors.As(err, &refused) || refused.Code != "failed" || len(refused.Body) == 0 {
		t.Fatal(err)
	}
	if _, err := Request(ctx, js, "main", "unknown", nil); !errors.Is(err, ErrNoRunner) {
		t.Fatal(err)
	}
	slow := make(chan error, 1)
	go func() {
		_, err := Request(ctx, js, "main", "slow", nil)
		slow <- err
	}()
	natstest.Receive(t, waiting)
	natstest.Check(t, stop())
	natstest.Check(t, stop())
	if err := natstest.Receive(t, slow); !errors.Is(err, queue.ErrStopping) {
		t.Fatalf("a request in progress at stop: %v", err)
	}
}

func TestARequestEndsWithTheConnectionOfItsAnswer(t *testing.T) {
	server := natstest.Serve(t, t.TempDir())
	js := jstest.Connect(t, server.URL())
	asked := make(chan struct{})
	stop, err := ServeMain(js, "dev", map[string]Handler{
		"never": func(ctx context.Context, _ []byte) ([]byte, error) {
			close(asked)
			<-ctx.Done()
			return nil, ctx.Err()
		},
	})
	natstest.Check(t, err)
	defer func() { _ = stop() }()
	other := jstest.Connect(t, server.URL())
	answered := make(chan error, 1)
	go func() {
		_, err := Request(natstest.Within(t), other, "main", "never", nil)
		answered <- err
	}()
	natstest.Receive(t, asked)
	server.Shutdown()
	if err := natstest.Receive(t, answered); !errors.Is(err, queue.ErrStopping) {
		t.Fatalf("a request whose connection was lost: %v", err)
	}
}

// It is found over another connection too.
func TestAnAccountThatIsServedIsFoundAtOnce(t *testing.T) {
	server := natstest.Serve(t, t.TempDir())
	js, other := jstest.Connect(t, server.URL()), jstest.Connect(t, server.URL())
	status := func(context.Context, []byte) ([]byte, error) { return []byte("{}"), nil }
	for range 50 {
		stop, err := ServeMain(js, "1.0.0", map[string]Handler{"status": status})
		natstest.Check(t, err)
		if _, err := Request(natstest.Within(t), other, "main", "status", nil); err != nil {
			t.Fatal(err)
		}
		natstest.Check(t, stop())
	}
}

// The description is also in a header.
func TestAnErrorFitsItsMessage(t *testing.T) {
	js := jstest.New(t)
	stop, err := ServeMain(js, "1.0.0", map[string]Handler{"cancel": func(_ context.Context, data []byte) ([]byte, error) {
		return nil, &Error{Code: "not_found", Description: string(data) + " is not a command"}
	}})
	natstest.Check(t, err)
	defer func() { natstest.Check(t, stop()) }()
	var refused *Error
	_, err = Request(natstest.Within(t), js, "main", "cancel", []byte(strings.Repeat("\u00e9", int(js.Conn().MaxPayload())/3)))
	if !errors.As(err, &refused) || refused.Code != "not_found" || len(refused.Description) > maxDescription+len("\u2026") || !utf8.ValidString(refused.Description) {
		t.Errorf("%.200v", err)
	}
}

// On a server without accounts any client may write the header.
func TestANameThatNoServerProvesIsNone(t *testing.T) {
	js := jstest.New(t)
	stop, err := ServeMain(js, "1.0.0", map[string]Handler{"status": func(ctx context.Context, _ []byte) ([]byte, error) { return []byte("<" + Caller(ctx) + ">"), nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stop() }()
	m := nats.NewMsg(queue.ServiceSubject("main", "status"))
	m.Header.Set("Nats-Request-Info", `{"acc":"PERENNIAL","user":"root"}`)
	answer, err := js.Conn().RequestMsg(m, 10*time.Second)
	if err != nil || string(answer.Data) != "<>" {
		t.Errorf("%v %v", answer, err)
	}
}

// Slow requests continue for clients that have gone.
func TestNoOtherRequestWaitsForSlowOnes(t *testing.T) {
	js := jstest.New(t)
	hold, begun := make(chan struct{}), make(chan struct{}, 2*maxServing)
	slow := func(context.Context, []byte) ([]byte, error) {
		begun <- struct{}{}
		<-hold
		return []byte("{}"), nil
	}
	quick := func(context.Context, []byte) ([]byte, error) { return []byte("{}"), nil }
	stop, err := ServeMain(js, "1.0.0", map[string]Handler{"plan": slow, "reconcile": slow, "pause": quick, "status": quick})
	if err != nil {
		t.Fatal(err)
	}
	for range maxServing {
		for _, verb := range []string{"plan", "reconcile"} {
			if err := js.Conn().PublishRequest(queue.ServiceSubject("main", verb), js.Conn().NewInbox(), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range maxServing {
		natstest.Receive(t, begun)
	}
	for _, verb := range []string{"pause", "status"} {
		if _, err := Request(natstest.Within(t), js, "main", verb, nil); err != nil {
			t.Error(err)
		}
	}
	close(hold)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// With a deliver subject JetStream sends events to a verb, and on a server without accounts
// a reply may be any subject.
func TestARequestForAnAnswerElsewhereIsLeftAlone(t *testing.T) {
	js := jstest.New(t)
	asked := make(chan struct{}, 8)
	stop, err := ServeMain(js, "1.0.0", map[string]Handler{"pause": func(context.Context, []byte) ([]byte, error) {
		asked <- struct{}{}
		return []byte("{}"), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, reply := range []string{"", "perennial.events.main.pwned", "$JS.API.STREAM.PURGE.PERENNIAL_COMMANDS_main", "$KV.X.y", "$JS.ACK.a.b.1.2.3.4.5"} {
		if err := js.Conn().PublishMsg(&nats.Msg{Subject: queue.ServiceSubject("main", "pause"), Reply: reply, Data: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := js.Conn().Request(queue.ServiceSubject("main", "pause"), nil, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if len(asked) != 1 {
		t.Errorf("it was carried out %d times", len(asked))
	}
}
