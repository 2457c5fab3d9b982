// Package connect is how each of the programs beside it reaches NATS: the login comes from
// the environment.
package connect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"time"

	"github.com/nats-io/nats.go"
)

// Account is the account of Perennial, PERENNIAL_ACCOUNT or main.
func Account() string { return cmp.Or(os.Getenv("PERENNIAL_ACCOUNT"), "main") }

// Stream is the stream of the account's events.
func Stream() string { return "PERENNIAL_EVENTS_" + Account() }

// NATS connects with NATS_URL, and NATS_CREDS or NATS_USER and NATS_PASSWORD.
func NATS() (*nats.Conn, error) {
	options := []nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(500 * time.Millisecond)}
	if file := os.Getenv("NATS_CREDS"); file != "" {
		options = append(options, nats.UserCredentials(file))
	}
	if user := os.Getenv("NATS_USER"); user != "" {
		options = append(options, nats.UserInfo(user, os.Getenv("NATS_PASSWORD")))
	}
	return nats.Connect(cmp.Or(os.Getenv("NATS_URL"), nats.DefaultURL), options...)
}

// VerbError is what the account's service answers in the place of a result.
type VerbError struct{ Code, Text string }

// Error is the service's text.
func (e VerbError) Error() string { return e.Code + ": " + e.Text }

// Ask asks a verb of the account's service.
func Ask(ctx context.Context, nc *nats.Conn, verb string, question, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	m, err := nc.RequestWithContext(ctx, "perennial.svc."+Account()+"."+verb, body)
	if err != nil {
		return err
	}
	if code := m.Header.Get("Nats-Service-Error-Code"); code != "" {
		return VerbError{Code: code, Text: m.Header.Get("Nats-Service-Error")}
	}
	return json.Unmarshal(m.Data, answer)
}

// Persist does it until it works, for as long as a runner or a server may take to come back.
func Persist(ctx context.Context, what func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	again := time.NewTicker(500 * time.Millisecond)
	defer again.Stop()
	for {
		attempt, done := context.WithTimeout(ctx, 10*time.Second)
		err := what(attempt)
		done()
		if err == nil || hopeless(err) {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return err
		}
	}
}

// What the service refuses, and what the server forbids, is refused the next time too.
func hopeless(err error) bool {
	if verb, ok := errors.AsType[VerbError](err); ok {
		return verb.Code == "bad_request" || verb.Code == "unproven"
	}
	return errors.Is(err, nats.ErrPermissionViolation) || errors.Is(err, nats.ErrAuthorization)
}
