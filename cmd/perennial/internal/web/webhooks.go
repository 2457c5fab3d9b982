// The webhooks page: lag, test events and replays.

package web

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"perennial/cmd/perennial/internal/webhook"
)

// Webhooks gives access to an account's webhooks.
type Webhooks interface {
	// List returns the configured webhooks, and removed webhooks that still have a position.
	List(ctx context.Context) ([]webhook.Status, error)
	// Test sends a signed test event and describes the reply. It returns an error if the event
	// was not accepted.
	Test(ctx context.Context, name string) (said string, err error)
	// Replay delivers events again, from a sequence or from the first event since a time. The
	// replay is recorded under a person's name.
	Replay(ctx context.Context, name string, seq uint64, since time.Time, by, reason string) (said string, err error)
}

func (s *overviewPages) webhooks(q accountRequest) {
	ctx, cancel := context.WithTimeout(q.Context(), askWithin)
	defer cancel()
	all, err := q.account.Webhooks().List(ctx)
	if err != nil {
		s.frame.fail(q.to, q.Request, q.session, http.StatusServiceUnavailable, "The positions of the webhooks cannot be read from NATS now: "+err.Error(), err)
		return
	}
	s.frame.show(q, "webhooks", "Webhooks", all)
}

func testWebhook(form func(string) string) (changeFunc, []string, error) {
	name := form("id")
	return func(ctx context.Context, a Account, _ signature) (string, error) {
		return a.Webhooks().Test(ctx, name)
	}, []string{"webhooks", "test", name}, nil
}

// replayWebhook parses the start of a replay: a sequence, a day or a time.
func replayWebhook(form func(string) string) (changeFunc, []string, error) {
	name, from := form("id"), form("from")
	var since time.Time
	seq, err := strconv.ParseUint(from, 10, 64)
	where := []string{"--from-seq", from}
	if err != nil || seq == 0 {
		if since, err = instantOf(from); err != nil || since.IsZero() {
			return nil, nil, errors.New("say from where on: the sequence of an event, such as 42, or a day, such as 2026-11-21")
		}
		seq, where = 0, []string{"--from-time", strings.TrimSpace(from)}
	}
	return func(ctx context.Context, a Account, by signature) (string, error) {
		return a.Webhooks().Replay(ctx, name, seq, since, by.name, by.reason)
	}, append([]string{"webhooks", "replay", name}, where...), nil
}
