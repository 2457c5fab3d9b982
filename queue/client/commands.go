// This file has commands in the form that producers write.

package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"perennial/queue"
	"perennial/queue/publish"
)

// Command is an [Order] or a [Renewal].
type Command interface {
	id() string
	kind() queue.Kind
}

// Priority is the priority of a command. [High] goes before other commands, [Bulk] after
// them.
type Priority string

// Priorities; "" is between the two.
const (
	High Priority = "high"
	Bulk Priority = "bulk"
)

// Order buys proxies. The caller chooses ID. An order with the same ID and content is
// executed once, however often it is published.
type Order struct {
	ID           string `json:"id"`            // 1 to 128 characters
	DurationDays int64  `json:"duration_days"` // a multiple of 30 that the offers support
	Items        []Item `json:"items"`         // at most 50 items and 2,000 proxies
	// MaxTotalCents limits the cost; it is checked with a quote before the order is sent.
	// Nil means no limit.
	MaxTotalCents   *int64            `json:"max_total_cents,omitempty"`
	NotAfter        *time.Time        `json:"not_after,omitempty"` // send no first request after this time
	Labels          map[string]string `json:"labels,omitempty"`    // in every event of the command
	SandboxScenario string            `json:"sandbox_scenario,omitempty"`
	Priority        Priority          `json:"priority,omitempty"`
}

// Item is an offer and a quantity in an order.
type Item struct {
	OfferCode string   `json:"offer_code"`
	Quantity  int64    `json:"quantity"`
	CIDRs     []string `json:"cidrs,omitempty"` // allowed if the account's configuration has the API's field for CIDRs
}

// Renewal renews at most 5,000 proxies.
type Renewal struct {
	ID            string   `json:"id"`
	ProxyIDs      []string `json:"proxy_ids"`
	DurationDays  int64    `json:"duration_days"` // a multiple of 30, at most 1,080
	MaxTotalCents *int64   `json:"max_total_cents,omitempty"`
	// DueBefore skips proxies that expire later. Their expiry is read just before the
	// charge. Nil renews all.
	DueBefore *time.Time `json:"due_before,omitempty"`
	// ExpectExpiresAt skips proxies whose expiry differs from the given one, by proxy id.
	ExpectExpiresAt map[string]time.Time `json:"expect_expires_at,omitempty"`
	NotAfter        *time.Time           `json:"not_after,omitempty"`
	Labels          map[string]string    `json:"labels,omitempty"`
	Priority        Priority             `json:"priority,omitempty"`
}

func (o Order) id() string       { return o.ID }
func (Order) kind() queue.Kind   { return queue.KindOrderCreate }
func (r Renewal) id() string     { return r.ID }
func (Renewal) kind() queue.Kind { return queue.KindProxyRenew }

var errNoCommand = errors.New("there is no command: give an Order or a Renewal")

// outgoing returns a command in the form in which it is published. The runner checks its
// content.
func outgoing(c Command) (publish.Outgoing, error) {
	if c == nil {
		return publish.Outgoing{}, errNoCommand
	}
	if c.id() == "" {
		return publish.Outgoing{}, errors.New("the command has no ID: choose one, it is what keeps the command from being done twice")
	}
	data, err := json.Marshal(c)
	if err != nil {
		return publish.Outgoing{}, fmt.Errorf("command %.128q: %w", c.id(), err)
	}
	return publish.Outgoing{Kind: c.kind(), Data: data}, nil
}
