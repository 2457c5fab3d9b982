package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"perennial/ledger"
	"perennial/queue"
	"perennial/upstream"
)

// Bounds of a command. The provider's are from customer-api.md, Limits.
const (
	MaxCommandBytes = 128 << 10
	MaxProxyIDs     = 5000
	maxIDLength     = 128
	maxLines        = 50
	maxQuantity     = 2000
	maxRenewDays    = 1095
	dayStep         = 30
	maxLabels       = 32
	maxLabelBytes   = 256
	maxOpaqueID     = 256
)

// Item is one line of an order.
type Item struct {
	OfferCode string   `json:"offer_code"`
	Quantity  int64    `json:"quantity"`
	CIDRs     []string `json:"cidrs,omitempty"`
}

// Command is what a publisher asks for, read and normalised. The legacy
// single-offer form is one Item.
type Command struct {
	ID           string      `json:"id"`
	Kind         ledger.Kind `json:"kind"`
	DurationDays int64       `json:"duration_days"`
	Items        []Item      `json:"items,omitempty"`
	ProxyIDs     []string    `json:"proxy_ids,omitempty"`
	// MaxTotalCents is the ceiling for the whole command; 0 means none.
	MaxTotalCents   int64                `json:"max_total_cents,omitempty"`
	NotAfter        *time.Time           `json:"not_after,omitempty"`
	DueBefore       *time.Time           `json:"due_before,omitempty"`
	ExpectExpiresAt map[string]time.Time `json:"expect_expires_at,omitempty"`
	Labels          map[string]string    `json:"labels,omitempty"`
	Scenario        string               `json:"sandbox_scenario,omitempty"`
	// Priority is "high", "bulk" or neither. It is no part of what the command
	// asks for: the same content under another priority is the same command.
	Priority queue.Priority `json:"priority,omitempty"`
}

// Guarded reports whether the proxies are to be read again just before paying.
func (c Command) Guarded() bool { return c.DueBefore != nil || len(c.ExpectExpiresAt) > 0 }

// orderWire and renewalWire are the commands as they are written (contract of
// the commands stream). A field that is not here is refused.
type orderWire struct {
	ID              string            `json:"id"`
	DurationDays    int64             `json:"duration_days"`
	Items           []Item            `json:"items"`
	OfferCode       *string           `json:"offer_code"`
	Quantity        *int64            `json:"quantity"`
	MaxTotalCents   *int64            `json:"max_total_cents"`
	NotAfter        *time.Time        `json:"not_after"`
	Labels          map[string]string `json:"labels"`
	SandboxScenario string            `json:"sandbox_scenario"`
	Priority        queue.Priority    `json:"priority" jsonschema:"enum=high,enum=bulk"`
}

type renewalWire struct {
	ID              string               `json:"id"`
	ProxyIDs        []string             `json:"proxy_ids"`
	DurationDays    int64                `json:"duration_days"`
	MaxTotalCents   *int64               `json:"max_total_cents"`
	NotAfter        *time.Time           `json:"not_after"`
	DueBefore       *time.Time           `json:"due_before"`
	ExpectExpiresAt map[string]time.Time `json:"expect_expires_at"`
	Labels          map[string]string    `json:"labels"`
	Priority        queue.Priority       `json:"priority" jsonschema:"enum=high,enum=bulk"`
}

// UnreadableError is a message that cannot be answered under any command id.
type UnreadableError struct{ Reason string }

// Error says why the message could not be read.
func (e *UnreadableError) Error() string { return e.Reason }

// InvalidError is a command whose id could be read and whose content is refused.
type InvalidError struct {
	ID     string
	Labels map[string]string
	Reason string
}

// Error names the command and what is wrong with it.
func (e *InvalidError) Error() string { return fmt.Sprintf("command %q: %s", e.ID, e.Reason) }

// Rules is what an account's configuration adds to the reading of commands.
type Rules struct {
	Environment upstream.Environment
	CIDRField   string
}

// ParseCommand reads a message of the given kind. The error is an
// *UnreadableError or an *InvalidError; both say what to do.
func ParseCommand(kind ledger.Kind, data []byte, rules Rules) (Command, error) {
	if len(data) > MaxCommandBytes {
		return Command{}, &UnreadableError{fmt.Sprintf("the command has %d bytes of at most %d: split it", len(data), MaxCommandBytes)}
	}
	c, err := readCommand(kind, data)
	if errors.Is(err, errUnreadable) {
		return Command{}, &UnreadableError{err.Error()}
	}
	if err != nil {
		id, labels := salvage(data)
		if idErr := checkID(id); idErr != nil {
			return Command{}, &UnreadableError{idErr.Error() + "; and " + err.Error()}
		}
		return Command{}, &InvalidError{ID: id, Labels: labels, Reason: err.Error()}
	}
	if err := checkID(c.ID); err != nil {
		return Command{}, &UnreadableError{err.Error()}
	}
	if err := c.check(rules); err != nil {
		return Command{}, &InvalidError{ID: c.ID, Labels: boundedLabels(c.Labels), Reason: err.Error()}
	}
	return c, nil
}

func readCommand(kind ledger.Kind, data []byte) (Command, error) {
	if kind == ledger.KindOrder {
		var w orderWire
		if err := decodeStrict(data, &w); err != nil {
			return Command{}, err
		}
		return w.command()
	}
	var w renewalWire
	if err := decodeStrict(data, &w); err != nil {
		return Command{}, err
	}
	c := Command{
		ID: w.ID, Kind: ledger.KindRenewal, DurationDays: w.DurationDays, ProxyIDs: w.ProxyIDs, NotAfter: utc(w.NotAfter),
		DueBefore: utc(w.DueBefore), ExpectExpiresAt: utcMap(w.ExpectExpiresAt), Labels: w.Labels, Priority: w.Priority,
	}
	var err error
	c.MaxTotalCents, err = ceiling(w.MaxTotalCents)
	return c, err
}

func (w orderWire) command() (Command, error) {
	c := Command{
		ID: w.ID, Kind: ledger.KindOrder, DurationDays: w.DurationDays, Items: w.Items, NotAfter: utc(w.NotAfter),
		Labels: w.Labels, Scenario: w.SandboxScenario, Priority: w.Priority,
	}
	if w.OfferCode != nil || w.Quantity != nil {
		if len(w.Items) > 0 {
			return c, errors.New("offer_code and quantity stand beside items: use one form")
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

// ceiling is max_total_cents, 0 where it was left out.
func ceiling(cents *int64) (int64, error) {
	if cents == nil {
		return 0, nil
	}
	if *cents <= 0 {
		return 0, fmt.Errorf("max_total_cents is %d and must be at least 1: leave it out for no ceiling", *cents)
	}
	return *cents, nil
}

// salvage finds the id of a command that was refused, so that its refusal can
// be told to the publisher.
func salvage(data []byte) (string, map[string]string) {
	var w struct {
		ID     json.RawMessage `json:"id"`
		Labels json.RawMessage `json:"labels"`
	}
	var id string
	var labels map[string]string
	_ = json.Unmarshal(data, &w)
	_ = json.Unmarshal(w.ID, &id)
	if json.Unmarshal(w.Labels, &labels) != nil {
		labels = nil
	}
	return id, boundedLabels(labels)
}

func boundedLabels(labels map[string]string) map[string]string {
	if checkLabels(labels) != nil {
		return nil
	}
	return labels
}

func checkID(id string) error {
	if id == "" {
		return errors.New("the command has no id: give it one that you choose, and the same one when you send it again")
	}
	if len(id) > maxIDLength {
		return fmt.Errorf("the command's id has %d bytes of at most %d", len(id), maxIDLength)
	}
	if strings.ContainsFunc(id, unprintable) {
		return errors.New("the command's id holds a character that cannot be printed")
	}
	return nil
}

func (c Command) check(rules Rules) error {
	if c.DurationDays <= 0 || c.DurationDays%dayStep != 0 {
		return fmt.Errorf("duration_days is %d and must be a positive multiple of %d", c.DurationDays, dayStep)
	}
	if err := checkLabels(c.Labels); err != nil {
		return err
	}
	if err := queue.ValidPriority(c.Priority); err != nil {
		return err
	}
	if err := c.checkInstants(); err != nil {
		return err
	}
	if c.Kind == ledger.KindOrder {
		return c.checkOrder(rules)
	}
	return c.checkRenewal()
}

func (c Command) checkOrder(rules Rules) error {
	if len(c.Items) == 0 {
		return errors.New("items is empty: name at least one offer")
	}
	if len(c.Items) > maxLines {
		return fmt.Errorf("items has %d lines of at most %d: split the command", len(c.Items), maxLines)
	}
	var sum int64
	offers := map[string]map[string]bool{}
	for i, item := range c.Items {
		if err := item.check(rules); err != nil {
			return fmt.Errorf("items[%d]: %w", i, err)
		}
		if err := item.beside(offers); err != nil {
			return fmt.Errorf("items[%d]: %w", i, err)
		}
		sum += item.Quantity
	}
	if sum > maxQuantity {
		return fmt.Errorf("the quantities sum to %d of at most %d: split the command", sum, maxQuantity)
	}
	return c.checkScenario(rules)
}

// beside checks a line against those before it of the same offer (customer-api.md,
// POST orders, rules 2 and 3), and adds it: their CIDRs, none for an allocation by
// chance.
func (i Item) beside(offers map[string]map[string]bool) error {
	taken, again := offers[i.OfferCode]
	switch {
	case again && len(taken) == 0 && len(i.CIDRs) == 0:
		return fmt.Errorf("offer %q stands twice: put its quantity on one line", i.OfferCode)
	case again && (len(taken) == 0 || len(i.CIDRs) == 0):
		return fmt.Errorf("offer %q stands with CIDRs and without: the provider takes one or the other for an offer", i.OfferCode)
	case !again:
		taken = map[string]bool{}
		offers[i.OfferCode] = taken
	}
	for _, cidr := range i.CIDRs {
		if taken[cidr] {
			return fmt.Errorf("offer %q names CIDR %.40q twice", i.OfferCode, cidr)
		}
		taken[cidr] = true
	}
	return nil
}

func (i Item) check(rules Rules) error {
	if err := checkOpaque("offer_code", i.OfferCode); err != nil {
		return err
	}
	if i.Quantity < 1 || i.Quantity > maxQuantity {
		return fmt.Errorf("quantity is %d and must be 1 to %d", i.Quantity, maxQuantity)
	}
	if len(i.CIDRs) == 0 {
		return nil
	}
	if rules.CIDRField == "" {
		return errors.New("cidrs cannot be sent: the API's document does not give the field's name, and the account has no cidr_field")
	}
	seen := map[string]bool{}
	for _, cidr := range i.CIDRs {
		if cidr == "" || len(cidr) > maxOpaqueID || seen[cidr] {
			return fmt.Errorf("cidrs holds %q twice, empty or too long", cidr)
		}
		seen[cidr] = true
	}
	return nil
}

func (c Command) checkScenario(rules Rules) error {
	if c.Scenario == "" {
		return nil
	}
	if rules.Environment != upstream.Sandbox {
		return errors.New("sandbox_scenario is for sandbox accounts only")
	}
	switch c.Scenario {
	case "success", "delayed", "partial", "rejected":
		return nil
	}
	return fmt.Errorf("sandbox_scenario is %q and must be success, delayed, partial or rejected", c.Scenario)
}

func (c Command) checkRenewal() error {
	if c.DurationDays > maxRenewDays {
		return fmt.Errorf("duration_days is %d; a renewal takes at most %d, so 1080", c.DurationDays, maxRenewDays)
	}
	if len(c.ProxyIDs) == 0 {
		return errors.New("proxy_ids is empty: name at least one proxy")
	}
	if len(c.ProxyIDs) > MaxProxyIDs {
		return fmt.Errorf("proxy_ids has %d entries of at most %d: split the command", len(c.ProxyIDs), MaxProxyIDs)
	}
	seen := make(map[string]bool, len(c.ProxyIDs))
	for i, id := range c.ProxyIDs {
		if err := checkOpaque("proxy id", id); err != nil {
			return fmt.Errorf("proxy_ids[%d]: %w", i, err)
		}
		if seen[id] {
			return fmt.Errorf("proxy_ids[%d]: %q stands twice: it would be renewed and paid for twice", i, id)
		}
		seen[id] = true
	}
	for id := range c.ExpectExpiresAt {
		if !seen[id] {
			return fmt.Errorf("expect_expires_at names %q, which is not in proxy_ids", id)
		}
	}
	return nil
}

func checkOpaque(what, id string) error {
	if id == "" || len(id) > maxOpaqueID {
		return fmt.Errorf("the %s %.40q has %d bytes and must have 1 to %d", what, id, len(id), maxOpaqueID)
	}
	if strings.ContainsFunc(id, unprintable) {
		return fmt.Errorf("the %s %.40q holds a character that cannot be printed", what, id)
	}
	return nil
}

// unprintable: also the replacement character, to which different broken texts
// decode alike.
func unprintable(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }

func checkLabels(labels map[string]string) error {
	if len(labels) > maxLabels {
		return fmt.Errorf("labels has %d entries of at most %d", len(labels), maxLabels)
	}
	for k, v := range labels {
		if k == "" || len(k) > maxLabelBytes || len(v) > maxLabelBytes {
			return fmt.Errorf("label %.40q: keys have 1 to %d bytes, values at most %d", k, maxLabelBytes, maxLabelBytes)
		}
	}
	return nil
}

// checkInstants refuses what cannot be written in UTC: an instant that is valid
// with its offset may lie in the year 10000 or -1 without it.
func (c Command) checkInstants() error {
	named := map[string]*time.Time{"not_after": c.NotAfter, "due_before": c.DueBefore}
	for _, field := range slices.Sorted(maps.Keys(named)) {
		if at := named[field]; at != nil && !storable(*at) {
			return outOfYears(field, *at)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.ExpectExpiresAt)) {
		if at := c.ExpectExpiresAt[id]; !storable(at) {
			return outOfYears(fmt.Sprintf("expect_expires_at[%.40q]", id), at)
		}
	}
	return nil
}

// storable is the rule by which sweeps leave proxies out too.
func storable(t time.Time) bool { return ledger.WritableInstant(t) }

func outOfYears(field string, at time.Time) error {
	return fmt.Errorf("%s is in the year %d in UTC and must be between the years 1 and 9999", field, at.UTC().Year())
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

// CommandShapes gives a zero value of each kind of command as it is written, by
// the kind's subject, for schemas.
func CommandShapes() map[string]any {
	return map[string]any{"order.create": orderWire{}, "proxy.renew": renewalWire{}}
}
