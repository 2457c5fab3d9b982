// This file sends replies that exceed the NATS server's max_payload in parts.

package service

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"perennial/queue"
	"perennial/queue/caller"
)

// The plan of a large run can have several megabytes, and a NATS server accepts messages of
// 1 MB by default. A client that sends the header Perennial-Parts gets its reply in parts,
// each with its number and the total. Without the header it gets an error.
const (
	// HeaderParts requests a reply in parts, and numbers the parts.
	HeaderParts = "Perennial-Parts"
	// partRoom is the number of bytes of a message that are reserved for its headers.
	partRoom = 4 << 10
	// maxAnswer limits the size, in bytes, of a reply that is assembled from parts.
	maxAnswer = 256 << 20
	// codeTooLarge is the code of the error if a reply cannot be sent.
	codeTooLarge = "too_large"
)

// HeaderUser is the reply header that contains the user who sent the request, as the server
// identified it.
const HeaderUser = "Perennial-User"

// respond sends a reply, in parts if it is long. If the reply cannot be sent, the client
// gets an error.
func (s *serving) respond(request *request, data []byte) {
	most := int(s.js.Conn().MaxPayload())
	var err error
	switch {
	case len(data)+partRoom <= most:
		request.end("")
		err = s.send(request, nats.Header{}, data)
	case request.Header.Get(HeaderParts) == "" || most <= partRoom || len(data) > maxAnswer:
		err = nats.ErrMaxPayload
	default:
		request.end("")
		err = s.respondInParts(request, data, most-partRoom)
	}
	if err == nil {
		return
	}
	s.js.Log().WithError(err).WithField("subject", request.Subject).WithField("bytes", len(data)).Warn("answer not sent")
	s.refuse(request, &Error{Code: codeTooLarge, Description: fmt.Sprintf(
		"the answer of %d bytes cannot be sent (%s; max_payload of the NATS server is %d): ask for less, or with the header %s", len(data), err, most, HeaderParts)})
}

// send sends one message of a reply, with the name of the user who sent the request.
func (s *serving) send(request *request, header nats.Header, data []byte) error {
	if user := caller.Of(request.Header, request.Reply); user != "" {
		header.Set(HeaderUser, user)
	}
	return s.js.Conn().PublishMsg(&nats.Msg{Subject: request.Reply, Header: header, Data: data})
}

func (s *serving) respondInParts(request *request, data []byte, size int) error {
	parts := (len(data) + size - 1) / size
	for n := range parts {
		header := nats.Header{HeaderParts: []string{fmt.Sprintf("%d/%d", n+1, parts)}}
		if err := s.send(request, header, data[n*size:min((n+1)*size, len(data))]); err != nil {
			return fmt.Errorf("part %d of %d: %w", n+1, parts, err)
		}
	}
	return nil
}

// requestParts sends a request, and assembles the reply from its parts.
func requestParts(ctx context.Context, js *queue.JetStream, subject string, data []byte) (*nats.Msg, error) {
	inbox := js.Conn().NewInbox()
	answers, err := js.Conn().SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answers.Unsubscribe() }()
	if err := answers.SetPendingLimits(-1, maxAnswer); err != nil {
		return nil, err
	}
	ask := nats.NewMsg(subject)
	ask.Reply, ask.Data = inbox, data
	ask.Header.Set(HeaderParts, "1")
	if err := js.Conn().PublishMsg(ask); err != nil {
		return nil, err
	}
	var whole *nats.Msg
	for read := 1; ; read++ {
		part, err := answers.NextMsgWithContext(ctx)
		if err != nil {
			return nil, err
		}
		text := part.Header.Get(HeaderParts)
		if text == "" { // a short reply, or an error after some parts
			return part, nil
		}
		n, of, err := partOf(text)
		if err != nil || n != read {
			return nil, fmt.Errorf("part %d of the answer says that it is %.20q: ask again", read, text)
		}
		if whole == nil {
			whole = part
		} else {
			whole.Data = append(whole.Data, part.Data...)
		}
		if n == of {
			return whole, nil
		}
	}
}

func partOf(text string) (n, of int, err error) {
	first, second, _ := strings.Cut(text, "/")
	n, errN := strconv.Atoi(first)
	of, errOf := strconv.Atoi(second)
	return n, of, errors.Join(errN, errOf)
}
