package jobs

import (
	"context"
	"slices"
	"testing"

	"perennial/ledger/fact"
	"perennial/upstream"
)

// witness is a provider that checks the ledger before it passes a request on.
type witness struct {
	*upstream.Client
	sees func(w upstream.Write)
}

func (p witness) Post(ctx context.Context, w upstream.Write) upstream.Reply {
	p.sees(w)
	return p.Client.Post(ctx, w)
}

// The intent is on disk before the request is sent, with its key and bytes. This holds whether
// acceptance and intent share a commit or a precheck comes between them.
func TestTrap14NothingIsSentBeforeItsIntentIsOnTheDisk(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	seen := make(chan bool, 2)
	h.bind(func(c *Config) {
		c.Provider = witness{h.client, func(w upstream.Write) {
			seen <- slices.ContainsFunc(h.facts("operation.sending"), func(f fact.Fact) bool {
				s, _ := f.(fact.OperationSending)
				return s.Key == w.Key && s.Body == string(w.Body)
			})
		}}
	})
	h.start()
	h.renew(`{"id":"at-once","duration_days":30,"proxy_ids":["px_1"]}`)
	if !<-seen {
		t.Fatal("it was sent before the ledger held its intent")
	}
	h.renew(`{"id":"looked-at","duration_days":30,"proxy_ids":["px_2"],"due_before":"2999-01-01T00:00:00Z"}`)
	if !<-seen {
		t.Fatal("it was sent after a precheck, before the ledger held its intent")
	}
	h.await("at-once", fact.StateCompleted)
	h.await("looked-at", fact.StateCompleted)
	h.settled(600, 0)
}
