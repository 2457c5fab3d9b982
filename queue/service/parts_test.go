package service

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go/micro"

	"perennial/queue"
	"perennial/queue/natstest"
	"perennial/queue/natstest/jstest"
)

// The sizes are around the bounds of one message and of one part.
func TestAnAnswerOverMaxPayloadComesInParts(t *testing.T) {
	t.Parallel()
	js := jstest.New(t)
	ctx := natstest.Within(t)
	var answer []byte
	stop, err := ServeMain(js, "dev", map[string]Handler{
		"plan": func(context.Context, []byte) ([]byte, error) { return answer, nil },
	})
	natstest.Check(t, err)
	defer func() { _ = stop() }()
	most := int(js.MaxPayload())
	one := most - partRoom
	for _, size := range []int{0, 1, one - 1, one, one + 1, 2 * one, 2*one + 1, most, 5 * most} {
		answer = make([]byte, size)
		for i := range answer {
			answer[i] = byte(i / 1000)
		}
		got, err := Request(ctx, js, "main", "plan", nil)
		if err != nil || !bytes.Equal(got, answer) {
			t.Fatalf("%d bytes came as %d: %v", size, len(got), err)
		}
	}
}

func TestAnAnswerThatCannotBeSentFailsAtOnce(t *testing.T) {
	js := jstest.New(t)
	most := int(js.MaxPayload())
	stop, err := ServeMain(js, "dev", map[string]Handler{
		"list": func(context.Context, []byte) ([]byte, error) { return make([]byte, 2*most), nil },
		"huge": func(context.Context, []byte) ([]byte, error) { return make([]byte, maxAnswer+1), nil },
	})
	natstest.Check(t, err)
	defer func() { _ = stop() }()
	reply, err := js.Conn().RequestWithContext(natstest.Within(t), queue.ServiceSubject("main", "list"), nil) // any NATS client
	natstest.Check(t, err)
	if code := reply.Header.Get(micro.ErrorCodeHeader); code != codeTooLarge {
		t.Fatalf("%q: %s", code, reply.Data)
	}
	var refused *Error
	if _, err := Request(natstest.Within(t), js, "main", "huge", nil); !errors.As(err, &refused) || refused.Code != codeTooLarge {
		t.Fatal(err)
	}
}

func TestPartsOutOfOrderAreNoAnswer(t *testing.T) {
	js := jstest.New(t)
	service, err := micro.AddService(js.Conn(), micro.Config{Name: "other", Version: "0.0.0"})
	natstest.Check(t, err)
	defer func() { _ = service.Stop() }()
	for verb, header := range map[string]string{"second": "2/2", "nonsense": "x", "none": "0/0"} {
		handler := micro.HandlerFunc(func(r micro.Request) {
			_ = r.Respond([]byte("{}"), micro.WithHeaders(micro.Headers{HeaderParts: []string{header}}))
		})
		natstest.Check(t, service.AddEndpoint(verb, handler, micro.WithEndpointSubject(queue.ServiceSubject("main", verb))))
		natstest.Check(t, js.Conn().Flush())
		if got, err := Request(natstest.Within(t), js, "main", verb, nil); err == nil {
			t.Errorf("%s: %s", verb, got)
		}
	}
}
