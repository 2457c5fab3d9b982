package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"perennial/ledger/fact"
	"perennial/upstream"
)

// Limits of a command. The provider has further limits (upstream.MaxQuantity, …).
const (
	MaxCommandBytes = 128 << 10
	MaxProxyIDs     = 5000
	maxIDLength     = 128 // characters
	// MaxIDBytes is the maximum length of the id of a proxy or an offer, in bytes.
	MaxIDBytes = 256
)

// Item is an offer and a quantity in an order.
type Item struct {
	OfferCode string   `json:"offer_code" doc:"The code of the offer."`
	Quantity  int64    `json:"quantity" doc:"The number of proxies."`
	CIDRs     []string `json:"cidrs,omitempty" doc:"The address ranges to choose from."`
}

// Command is a producer's command, parsed and normalised. The single-offer form of an order
// becomes one Item.
type Command struct {
	ID           string    `json:"id"`
	Kind         fact.Kind `json:"kind"`
	DurationDays int64     `json:"duration_days"`
	Items        []Item    `json:"items,omitempty"`
	ProxyIDs     []string  `json:"proxy_ids,omitempty"`
	// MaxTotalCents is the limit on the cost of the whole command. If it is 0, there is no limit.
	MaxTotalCents   int64                `json:"max_total_cents,omitempty"`
	NotAfter        *time.Time           `json:"not_after,omitempty"`
	DueBefore       *time.Time           `json:"due_before,omitempty"`
	ExpectExpiresAt map[string]time.Time `json:"expect_expires_at,omitempty"`
	Labels          map[string]string    `json:"labels,omitempty"`
	Scenario        string               `json:"sandbox_scenario,omitempty"`
	// Priority is "high", "bulk" or empty. It is not part of the content hash: the same
	// content with another priority is the same command.
	Priority Urgency `json:"priority,omitempty"`
	// Trace is the trace of the message. It is not part of the content hash.
	Trace fact.Trace `json:"-"`
}

// OnlyOffer returns the offer code of an order with one item. For any other command it returns
// "".
func (c Command) OnlyOffer() string {
	if len(c.Items) != 1 {
		return ""
	}
	return c.Items[0].OfferCode
}

// Ordered returns how many proxies the command buys.
func (c Command) Ordered() (n int64) {
	for _, i := range c.Items {
		n += i.Quantity
	}
	return n
}

// Urgency is the priority of a command, in the JSON field "priority".
type Urgency string

// The urgencies of a command. They equal the priorities of the stream (queue.Priority).
const (
	UrgencyHigh   Urgency = "high"
	UrgencyNormal Urgency = ""
	UrgencyBulk   Urgency = "bulk"
)

func (u Urgency) check() error {
	switch u {
	case UrgencyHigh, UrgencyNormal, UrgencyBulk:
		return nil
	}
	return fmt.Errorf("priority is %.40q and must be %s or %s, or left out", string(u), UrgencyHigh, UrgencyBulk)
}

// Guarded reports whether the command's proxies must be read again just before a charge,
// because the command has conditions on their expiry.
func (c Command) Guarded() bool { return c.DueBefore != nil || len(c.ExpectExpiresAt) > 0 }

// NamesCIDRs reports whether an item has CIDRs.
func (c Command) NamesCIDRs() bool {
	return slices.ContainsFunc(c.Items, func(i Item) bool { return len(i.CIDRs) > 0 })
}

// OrderCommand is the JSON form of an order in the commands stream. A message with other
// fields is refused.
type OrderCommand struct {
	ID              string            `json:"id" doc:"The id of the command, chosen by its producer. The same id with the same content is always the same command."`
	DurationDays    int64             `json:"duration_days" doc:"The duration in days, a multiple of 30."`
	Items           []Item            `json:"items,omitempty" doc:"The offers and quantities."`
	OfferCode       *string           `json:"offer_code,omitempty" doc:"The code of the offer, if the command has no 'items'."`
	Quantity        *int64            `json:"quantity,omitempty" doc:"The number of proxies, if the command has no 'items'."`
	MaxTotalCents   *int64            `json:"max_total_cents,omitempty" doc:"The most that the whole command may cost, checked before sending; if omitted, no limit."`
	NotAfter        *time.Time        `json:"not_after,omitempty" doc:"Send no first request after this time."`
	Labels          map[string]string `json:"labels,omitempty" doc:"The labels of the command, as given by its producer."`
	SandboxScenario string            `json:"sandbox_scenario,omitempty" doc:"What the provider's sandbox does with the order; only for a sandbox account."`
	Priority        Urgency           `json:"priority,omitempty" jsonschema:"enum=high,enum=bulk" doc:"high goes before all other commands, bulk after them."`
}

// RenewalCommand is the JSON form of a renewal in the commands stream. A message with other
// fields is refused.
type RenewalCommand struct {
	ID              string               `json:"id" doc:"The id of the command, chosen by its producer. The same id with the same content is always the same command."`
	ProxyIDs        []string             `json:"proxy_ids" doc:"The provider's ids of the proxies."`
	DurationDays    int64                `json:"duration_days" doc:"The duration in days, a multiple of 30."`
	MaxTotalCents   *int64               `json:"max_total_cents,omitempty" doc:"The most that the whole command may cost, checked before sending; if omitted, no limit."`
	NotAfter        *time.Time           `json:"not_after,omitempty" doc:"Send no first request after this time."`
	DueBefore       *time.Time           `json:"due_before,omitempty" doc:"Skip proxies that expire later than this time."`
	ExpectExpiresAt map[string]time.Time `json:"expect_expires_at,omitempty" doc:"The expected expiry of each proxy. Skip proxies with another expiry."`
	Labels          map[string]string    `json:"labels,omitempty" doc:"The labels of the command, as given by its producer."`
	Priority        Urgency              `json:"priority,omitempty" jsonschema:"enum=high,enum=bulk" doc:"high goes before all other commands, bulk after them."`
}

// UnreadableError says that a message has no usable command id, so no event can be
// published about it.
type UnreadableError struct{ Reason string }

func (e *UnreadableError) Error() string { return e.Reason }

// InvalidError says that a command has a usable id but invalid content.
type InvalidError struct {
	ID     string
	Labels map[string]string
	Reason string
}

func (e *InvalidError) Error() string { return fmt.Sprintf("command %q: %s", e.ID, e.Reason) }

// Rules has the settings of an account that affect parsing.
type Rules struct {
	Environment upstream.Environment
	CIDRField   string
}

// Parse reads a message of the given kind. The error is an *UnreadableError or an
// *InvalidError; both say what to fix. If only the labels are invalid, Parse returns the
// command too, because an earlier version may have accepted it.
func Parse(kind fact.Kind, data []byte, rules Rules) (Command, error) {
	if len(data) > MaxCommandBytes {
		return Command{}, &UnreadableError{fmt.Sprintf("the command has %d bytes of at most %d: split it", len(data), MaxCommandBytes)}
	}
	c, err := readCommand(kind, data)
	if errors.Is(err, errUnreadable) {
		return Command{}, &UnreadableError{err.Error()}
	}
	if err != nil {
		id, labels := salvage(data)
		if idErr := CheckID(id); idErr != nil {
			return Command{}, &UnreadableError{idErr.Error() + "; and " + err.Error()}
		}
		return Command{}, &InvalidError{ID: id, Labels: labels, Reason: err.Error()}
	}
	if err := CheckID(c.ID); err != nil {
		return Command{}, &UnreadableError{err.Error()}
	}
	if err := c.check(rules); err != nil {
		return Command{}, &InvalidError{ID: c.ID, Labels: boundedLabels(c.Labels), Reason: err.Error()}
	}
	for key, value := range c.Labels {
		if err := fact.ClearLabel(key, value); err != nil {
			return c, &InvalidError{ID: c.ID, Labels: c.Labels, Reason: err.Error()}
		}
	}
	return c, nil
}

func readCommand(kind fact.Kind, data []byte) (Command, error) {
	switch kind {
	case fact.KindOrder:
		return readAs[OrderCommand](data)
	case fact.KindRenewal:
		return readAs[RenewalCommand](data)
	}
	return Command{}, errNoKind(kind)
}

func errNoKind(kind fact.Kind) error {
	return fmt.Errorf("%q is no kind of command", string(kind))
}

func readAs[W interface{ command() (Command, error) }](data []byte) (Command, error) {
	var w W
	if err := decodeStrict(data, &w); err != nil {
		return Command{}, err
	}
	return w.command()
}

func (w RenewalCommand) command() (Command, error) {
	c := Command{
		ID: w.ID, Kind: fact.KindRenewal, DurationDays: w.DurationDays, ProxyIDs: w.ProxyIDs, NotAfter: utc(w.NotAfter),
		DueBefore: utc(w.DueBefore), ExpectExpiresAt: utcMap(w.ExpectExpiresAt), Labels: w.Labels, Priority: w.Priority,
	}
	var err error
	c.MaxTotalCents, err = ceiling(w.MaxTotalCents)
	return c, err
}

func (w OrderCommand) command() (Command, error) {
	c := Command{
		ID: w.ID, Kind: fact.KindOrder, DurationDays: w.DurationDays, Items: w.Items, NotAfter: utc(w.NotAfter),
		Labels: w.Labels, Scenario: w.SandboxScenario, Priority: w.Priority,
	}
	if w.OfferCode != nil || w.Quantity != nil {
		if len(w.Items) > 0 {
			return c, errors.New("offer_code and quantity appear together with items: use one form")
		}
		if w.OfferCode == nil || w.Quantity == nil {
			return c, errors.New("the single-offer form needs both offer_code and quantity")
		}
		c.Items = []Item{{OfferCode: *w.OfferCode, Quantity: *w.Quantity}}
	}
	var err error
	c.MaxTotalCents, err = ceiling(w.MaxTotalCents)
	return c, err
}

func ceiling(cents *int64) (int64, error) {
	if cents == nil {
		return 0, nil
	}
	if *cents <= 0 {
		return 0, fmt.Errorf("max_total_cents is %d and must be at least 1: leave it out for no ceiling", *cents)
	}
	return *cents, nil
}

// salvage returns the id and labels of an invalid command, for the event that reports its
// refusal.
func salvage(data []byte) (string, map[string]string) {
	var w struct {
		ID     json.RawMessage `json:"id"`
		Labels json.RawMessage `json:"labels"`
	}
	var id string
	var labels map[string]string
	_ = jsonv2.Unmarshal(data, &w, jsontext.AllowDuplicateNames(true)) // encoding/json would accept "Id"
	_ = json.Unmarshal(w.ID, &id)
	if json.Unmarshal(w.Labels, &labels) != nil {
		labels = nil
	}
	return id, boundedLabels(labels)
}

func boundedLabels(labels map[string]string) map[string]string {
	if fact.CheckLabels(labels) != nil {
		return nil
	}
	return labels
}

func utc(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

func utcMap(m map[string]time.Time) map[string]time.Time {
	for k, v := range m {
		m[k] = v.UTC()
	}
	return m
}

// Shapes returns a zero value of each kind's JSON form, keyed by the kind's subject. It is
// used to generate schemas.
func Shapes() map[string]any {
	return map[string]any{"order.create": OrderCommand{}, "proxy.renew": RenewalCommand{}}
}

// RefusedError says why an operator's request is refused.
type RefusedError struct {
	Reason  string
	Unknown bool // the id in the request is unknown
	// Unconfirmed says that the request is possible but looks like a mistake, so it must be
	// confirmed.
	Unconfirmed bool
}

func (e *RefusedError) Error() string { return e.Reason }

// Refuse returns a RefusedError with the formatted reason.
func Refuse(format string, args ...any) error {
	return &RefusedError{Reason: fmt.Sprintf(format, args...)}
}

// RefuseUnconfirmed returns a RefusedError for a request that must be confirmed.
func RefuseUnconfirmed(format string, args ...any) error {
	return &RefusedError{Reason: fmt.Sprintf(format, args...), Unconfirmed: true}
}

// RefuseUnknown returns a RefusedError for an unknown id.
func RefuseUnknown(format string, args ...any) error {
	return &RefusedError{Reason: fmt.Sprintf(format, args...), Unknown: true}
}
