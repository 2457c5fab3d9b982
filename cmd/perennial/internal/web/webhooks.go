// Webhooks: how far each is, a test event, and a replay.

package web

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Webhook is a webhook of an account. Its address has its scheme and host alone: the rest may
// be a secret.
type Webhook struct {
	Name, URL, State string
	Seq              uint64 // everything up to it is delivered
	Lag              uint64 // events that are not
	LastError        string
	NextAttempt      *time.Time
}

// Webhooks are how the pages look after the webhooks of an account.
type Webhooks interface {
	// List are those of the configuration, and those that were taken out of it and still
	// have a position.
	List(ctx context.Context) ([]Webhook, error)
	// Test sends a signed event, and says how it was answered; an error is an event that was
	// not taken.
	Test(ctx context.Context, name string) (said string, err error)
	// Replay delivers again from an event on, or from the first one since an instant, in a
	// person's name.
	Replay(ctx context.Context, name string, seq uint64, since time.Time, by, reason string) (said string, err error)
}

func (s *Server) webhooks(q accountRequest) {
	ctx, cancel := context.WithTimeout(q.Context(), askWithin)
	defer cancel()
	all, err := q.account.Webhooks().List(ctx)
	if err != nil {
		s.fail(q.to, q.Request, q.session, http.StatusServiceUnavailable, "The positions of the webhooks cannot be read from NATS now: "+err.Error(), err)
		return
	}
	s.show(q, "webhooks", "Webhooks", all)
}

// webhookTest sends a test event.
func webhookTest(form func(string) string) (map[string]any, []string, error) {
	return map[string]any{"name": form("id")}, []string{"webhooks", "test", form("id")}, nil
}

// webhookReplay reads from where a webhook delivers again: a sequence, or a day.
func webhookReplay(form func(string) string) (map[string]any, []string, error) {
	q, command, from := map[string]any{"name": form("id")}, []string{"webhooks", "replay", form("id")}, form("from")
	if seq, err := strconv.ParseUint(from, 10, 64); err == nil && seq > 0 {
		q["seq"] = seq
		return q, append(command, "--from-seq", from), nil
	}
	since, err := instantOf(from)
	if err != nil || since.IsZero() {
		return nil, nil, errors.New("say from where on: the sequence of an event, such as 42, or a day, such as 2026-11-21")
	}
	q["since"] = since
	return q, append(command, "--from-time", strings.TrimSpace(from)), nil
}

func doWebhookTest(ctx context.Context, a Account, q map[string]any) (string, error) {
	name, _ := q["name"].(string)
	return a.Webhooks().Test(ctx, name)
}

func doWebhookReplay(ctx context.Context, a Account, q map[string]any) (string, error) {
	name, _ := q["name"].(string)
	seq, _ := q["seq"].(uint64)
	since, _ := q["since"].(time.Time)
	by, _ := q["by"].(string)
	reason, _ := q["reason"].(string)
	return a.Webhooks().Replay(ctx, name, seq, since, by, reason)
}
