package queue

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go/micro"
)

// TestAnAnswerOverMaxPayloadComesInParts: the sizes around the bounds of one
// message and of one part.
func TestAnAnswerOverMaxPayloadComesInParts(t *testing.T) {
	t.Parallel()
	q := connect(t, startServer(t, t.TempDir()))
	ctx := within(t)
	var answer []byte
	stop, err := ServeMain(q.JetStream(), "dev", map[string]Handler{
		"plan": func(context.Context, []byte) ([]byte, error) { return answer, nil },
	})
	check(t, err)
	defer func() { _ = stop() }()
	one := maxPayloadBytes - partRoom
	for _, size := range []int{0, 1, one - 1, one, one + 1, 2 * one, 2*one + 1, maxPayloadBytes, 5 * maxPayloadBytes} {
		answer = make([]byte, size)
		for i := range answer {
			answer[i] = byte(i / 1000)
		}
		got, err := Request(ctx, q.JetStream(), "main", "plan", nil)
		if err != nil || !bytes.Equal(got, answer) {
			t.Fatalf("%d bytes came as %d: %v", size, len(got), err)
		}
	}
}

func TestAnAnswerThatCannotBeSentFailsAtOnce(t *testing.T) {
	q := connect(t, startServer(t, t.TempDir()))
	stop, err := ServeMain(q.JetStream(), "dev", map[string]Handler{
		"list": func(context.Context, []byte) ([]byte, error) { return make([]byte, 2*maxPayloadBytes), nil },
		"huge": func(context.Context, []byte) ([]byte, error) { return make([]byte, maxAnswer+1), nil },
	})
	check(t, err)
	defer func() { _ = stop() }()
	reply, err := q.nc.RequestWithContext(within(t), ServiceSubject("main", "list"), nil) // any NATS client
	check(t, err)
	if code := reply.Header.Get(micro.ErrorCodeHeader); code != codeTooLarge {
		t.Fatalf("%q: %s", code, reply.Data)
	}
	var refused *ServiceError
	if _, err := Request(within(t), q.JetStream(), "main", "huge", nil); !errors.As(err, &refused) || refused.Code != codeTooLarge {
		t.Fatal(err)
	}
}

func TestPartsOutOfOrderAreNoAnswer(t *testing.T) {
	q := connect(t, startServer(t, t.TempDir()))
	service, err := micro.AddService(q.nc, micro.Config{Name: "other", Version: "0.0.0"})
	check(t, err)
	defer func() { _ = service.Stop() }()
	for verb, header := range map[string]string{"second": "2/2", "nonsense": "x", "none": "0/0"} {
		handler := micro.HandlerFunc(func(r micro.Request) {
			_ = r.Respond([]byte("{}"), micro.WithHeaders(micro.Headers{HeaderParts: []string{header}}))
		})
		check(t, service.AddEndpoint(verb, handler, micro.WithEndpointSubject(ServiceSubject("main", verb))))
		check(t, q.nc.Flush())
		if got, err := Request(within(t), q.JetStream(), "main", verb, nil); err == nil {
			t.Errorf("%s: %s", verb, got)
		}
	}
}
