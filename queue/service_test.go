package queue

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestServiceAnswersItsVerbsAndSaysWhenNoRunnerRuns(t *testing.T) {
	q := connect(t, startServer(t, t.TempDir()))
	ctx := within(t)
	if _, err := q.Request(ctx, "main", "status", nil); !errors.Is(err, ErrNoRunner) {
		t.Fatal(err)
	}
	waiting := make(chan struct{})
	stop, err := serveAccount(q, "dev", map[string]Handler{
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
	answer, err := q.Request(ctx, "main", "status", []byte("1"))
	check(t, err)
	if string(answer) != "ok 1" {
		t.Fatalf("%s", answer)
	}
	var refused *ServiceError
	if _, err := q.Request(ctx, "main", "retry", nil); !errors.As(err, &refused) || refused.Code != "not_found" || string(refused.Body) != `{"id":"x"}` {
		t.Fatal(err)
	}
	if _, err := q.Request(ctx, "main", "review.resolve", nil); !errors.As(err, &refused) || refused.Code != "failed" || len(refused.Body) == 0 {
		t.Fatal(err)
	}
	if _, err := q.Request(ctx, "main", "unknown", nil); !errors.Is(err, ErrNoRunner) {
		t.Fatal(err)
	}
	slow := make(chan error, 1)
	go func() {
		_, err := q.Request(ctx, "main", "slow", nil)
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
	stop, err := serveAccount(q, "dev", map[string]Handler{
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
		_, err := other.Request(within(t), "main", "never", nil)
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
		stop, err := serveAccount(q, "1.0.0", map[string]Handler{"status": status})
		check(t, err)
		if _, err := other.Request(within(t), "main", "status", nil); err != nil {
			t.Fatal(err)
		}
		check(t, stop())
	}
}

// TestAnErrorFitsItsMessage, whatever it says for people: it stands in a header too.
func TestAnErrorFitsItsMessage(t *testing.T) {
	q := newQueue(t)
	stop, err := serveAccount(q, "1.0.0", map[string]Handler{"cancel": func(_ context.Context, data []byte) ([]byte, error) {
		return nil, &ServiceError{Code: "not_found", Description: string(data) + " is not a command"}
	}})
	check(t, err)
	defer func() { check(t, stop()) }()
	var refused *ServiceError
	_, err = q.Request(within(t), "main", "cancel", []byte(strings.Repeat("\u00e9", int(q.nc.MaxPayload())/3)))
	if !errors.As(err, &refused) || refused.Code != "not_found" || len(refused.Description) > maxDescription+len("\u2026") || !utf8.ValidString(refused.Description) {
		t.Errorf("%.200v", err)
	}
}
