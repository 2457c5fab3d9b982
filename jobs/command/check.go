package command

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"perennial/ledger/fact"
	"perennial/upstream"
)

// CheckID returns an error if an id is not a valid command id.
func CheckID(id string) error {
	if id == "" {
		return errors.New("the command has no id: give it one that you choose, and the same one when you send it again")
	}
	if n := utf8.RuneCountInString(id); n > maxIDLength {
		return fmt.Errorf("the command's id has %d characters of at most %d", n, maxIDLength)
	}
	if fact.Bounded(id) != id {
		return fmt.Errorf("the command's id has %d bytes, which no fact can hold: choose a shorter one", len(id))
	}
	if why := fact.Unprintable(id); why != "" {
		return errors.New("the command's id " + why)
	}
	if strings.TrimSpace(id) != id {
		return fmt.Errorf("the command's id %q begins or ends with a blank, and would look like another one: remove it", id)
	}
	if end := operationSuffix.FindString(id); end != "" {
		return fmt.Errorf("the command's id %q ends in %q, as the ids of operations do, and could be that of one: choose another id", id, end)
	}
	if !norm.NFC.IsNormalString(id) {
		return fmt.Errorf("the command's id %+q is not in Unicode NFC, and would look like another one: use %+q", id, norm.NFC.String(id))
	}
	return nil
}

func (c Command) check(rules Rules) error {
	if err := fact.CheckLabels(c.Labels); err != nil {
		return err
	}
	if err := c.Priority.check(); err != nil {
		return err
	}
	if err := c.checkInstants(); err != nil {
		return err
	}
	switch c.Kind {
	case fact.KindOrder:
		return cmp.Or(c.checkDuration(), c.checkOrder(rules))
	case fact.KindRenewal:
		return cmp.Or(c.checkDuration(), c.checkRenewal())
	}
	return errNoKind(c.Kind)
}

func (c Command) checkDuration() error {
	if c.DurationDays <= 0 || c.DurationDays%upstream.DayStep != 0 {
		return fmt.Errorf("duration_days is %d and must be a positive multiple of %d", c.DurationDays, upstream.DayStep)
	}
	return nil
}

func (c Command) checkOrder(rules Rules) error {
	if len(c.Items) == 0 {
		return errors.New("items is empty: name at least one offer")
	}
	if len(c.Items) > upstream.MaxOrderLines {
		return fmt.Errorf("items has %d lines of at most %d: split the command", len(c.Items), upstream.MaxOrderLines)
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
	if sum > upstream.MaxQuantity {
		return fmt.Errorf("the quantities sum to %d of at most %d: split the command", sum, upstream.MaxQuantity)
	}
	return c.checkScenario(rules)
}

// An item must fit the earlier items of the same offer (customer-api.md, POST orders, rules 2 and
// 3). The item's CIDRs are added to offers. If an item has no CIDRs, the provider chooses the
// addresses.
func (i Item) beside(offers map[string]map[string]bool) error {
	taken, again := offers[i.OfferCode]
	switch {
	case again && len(taken) == 0 && len(i.CIDRs) == 0:
		return fmt.Errorf("offer %q appears twice: put its quantity on one line", i.OfferCode)
	case again && (len(taken) == 0 || len(i.CIDRs) == 0):
		return fmt.Errorf("offer %q appears with CIDRs and without: the provider takes one or the other for an offer", i.OfferCode)
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
	if i.Quantity < 1 || i.Quantity > upstream.MaxQuantity {
		return fmt.Errorf("quantity is %d and must be 1 to %d", i.Quantity, upstream.MaxQuantity)
	}
	if len(i.CIDRs) == 0 {
		return nil
	}
	if rules.CIDRField == "" {
		return errors.New("cidrs cannot be sent: the API's document does not give the field's name, and the account has no cidr_field")
	}
	seen := map[string]bool{}
	for _, cidr := range i.CIDRs {
		if cidr == "" || len(cidr) > MaxIDBytes || seen[cidr] {
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
	case upstream.ScenarioSuccess, upstream.ScenarioDelayed, upstream.ScenarioPartial, upstream.ScenarioRejected:
		return nil
	}
	return fmt.Errorf("sandbox_scenario is %q and must be success, delayed, partial or rejected", c.Scenario)
}

func (c Command) checkRenewal() error {
	if c.DurationDays > upstream.MaxRenewDays {
		return fmt.Errorf("duration_days is %d; a renewal takes at most %d, so 1080", c.DurationDays, upstream.MaxRenewDays)
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
			return fmt.Errorf("proxy_ids[%d]: %q appears twice: it would be renewed and paid for twice", i, id)
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

// ValidID reports whether the id of a proxy or an offer is valid in a command. A command
// with an invalid id is refused as a whole.
func ValidID(id string) bool { return checkOpaque("id", id) == nil }

func checkOpaque(what, id string) error {
	if id == "" || len(id) > MaxIDBytes {
		return fmt.Errorf("the %s %.40q has %d bytes and must have 1 to %d", what, id, len(id), MaxIDBytes)
	}
	if why := fact.Unprintable(id); why != "" {
		return fmt.Errorf("the %s %.40q %s", what, id, why)
	}
	return nil
}

// checkInstants refuses an instant whose year in UTC is not between 1 and 9999. The year of such
// an instant may be valid in its own time zone.
func (c Command) checkInstants() error {
	if at := c.DueBefore; at != nil && !storable(*at) {
		return outOfYears("due_before", *at)
	}
	if at := c.NotAfter; at != nil && !storable(*at) {
		return outOfYears("not_after", *at)
	}
	for _, id := range slices.Sorted(maps.Keys(c.ExpectExpiresAt)) {
		at := c.ExpectExpiresAt[id]
		if at.IsZero() { // null decodes as zero, which no proxy would match
			return fmt.Errorf("expect_expires_at[%.40q] is no expiry: name the one that is expected, or leave the proxy out", id)
		}
		if !storable(at) {
			return outOfYears(fmt.Sprintf("expect_expires_at[%.40q]", id), at)
		}
	}
	return nil
}

func storable(t time.Time) bool { return fact.WritableInstant(t) }

func outOfYears(field string, at time.Time) error {
	return fmt.Errorf("%s is in the year %d in UTC and must be between the years 1 and 9999", field, at.UTC().Year())
}
