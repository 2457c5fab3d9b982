// The option replace: an order takes the place of a proxy that the provider will not
// renew.

package schedules

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/queue"
	"perennial/upstream"
)

// Replace says what becomes of a proxy that the provider will not renew. It is
// off by default: it buys.
type Replace struct {
	Enabled  bool  `yaml:"enabled" doc:"order another proxy for one that is not renewed" json:"enabled,omitempty"`
	MaxCents int64 `yaml:"max_cents" doc:"the most that one replacement may cost, max_total_cents of its order; required if enabled" json:"max_cents,omitempty"`
	PerDay   int   `yaml:"per_day" absent:"10" doc:"the most replacements of a day in timezone" json:"per_day,omitempty"`
	// A proxy that the provider does not know is replaced at once.
	After int `yaml:"after" absent:"3" doc:"how many renewals have to fail first" json:"after,omitempty"`
}

const (
	defaultReplacePerDay = 10
	defaultReplaceAfter  = 3
)

func (p Replace) check() error {
	if p.Enabled && p.MaxCents <= 0 {
		return errors.New("replace.max_cents is missing: say what one replacement may cost at most")
	}
	if p.MaxCents < 0 || p.PerDay < 0 || p.After < 0 || p.After > maxEndings {
		return fmt.Errorf("replace: max_cents and per_day cannot be negative, and after is 1 to %d", maxEndings)
	}
	return nil
}

// replace orders another proxy in the place of each that the provider will not renew,
// before the sweep is planned: the same fact retires the replaced one. The caller has the
// schedule's turn.
func (s *Sweeper) replace(ctx context.Context, r *scheduleRunner) error {
	if !r.Replace.Enabled || s.Offers == nil || s.Proxy == nil {
		return nil
	}
	unsent, err := s.Ledger.UnsentReplacements(ctx, r.Name)
	if err != nil {
		return fmt.Errorf("read the replacements: %w", err)
	}
	orders := []json.RawMessage{}
	for _, one := range unsent { // again: the last sweep may have been cut short
		orders = append(orders, one.Command)
	}
	replaced, err := s.replaceRefused(ctx, r)
	return errors.Join(err, s.publishAs(ctx, r, queue.KindOrderCreate, append(orders, replaced...)))
}

// replaceRefused records an order for each proxy that the provider would not
// renew, as many as the day allows.
func (s *Sweeper) replaceRefused(ctx context.Context, r *scheduleRunner) (orders []json.RawMessage, err error) {
	done, err := s.Ledger.ReplacedSince(ctx, r.Name, fact.StartOfDay(s.Clock(), r.calendar.zone))
	if err != nil {
		return nil, fmt.Errorf("count the replacements: %w", err)
	}
	refused, err := s.refused(ctx, r)
	if err != nil {
		return nil, err
	}
	offered := market{}
	for _, p := range refused {
		if done >= cmp.Or(r.Replace.PerDay, defaultReplacePerDay) {
			s.log(r).Warnf("proxy %s and what comes after it are not replaced today: replace.per_day is reached", p.ProxyID)
			break
		}
		order, err := s.replaceOne(ctx, r, p, offered)
		if err != nil {
			return orders, err
		}
		if order != nil {
			orders = append(orders, order)
			done++
		}
	}
	return orders, nil
}

// refused lists what the provider would not renew, by the ledger's table.
func (s *Sweeper) refused(ctx context.Context, r *scheduleRunner) ([]ledger.Proxy, error) {
	now := s.providerNow()
	all, err := s.Ledger.Refused(ctx, now.Add(-day), now.Add(r.RenewBefore), cmp.Or(r.Replace.After, defaultReplaceAfter))
	if err != nil {
		return nil, fmt.Errorf("read what the provider would not renew: %w", err)
	}
	lists, err := r.Match.readLists(s.ReadFile)
	if err != nil {
		return nil, err
	}
	fits := r.Match.filter(lists)
	return slices.DeleteFunc(all, func(p ledger.Proxy) bool { return !fits.fits(p) }), nil
}

// stillRefused reads a proxy and asks the ledger again by what it says: a person
// may have renewed it since the last listing, or it is listed again.
func (s *Sweeper) stillRefused(ctx context.Context, r *scheduleRunner, id string) (bool, error) {
	if err := s.Pass(ctx); err != nil {
		return false, err
	}
	asked := s.Clock()
	p, err := s.Proxy(ctx, id)
	switch {
	case errors.Is(err, upstream.CodeProxyNotFound):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("read %s before it is replaced: %w", id, err)
	}
	if err := s.Ledger.Write(ctx, func(tx *ledger.Tx) error { return tx.Observe(0, seen(p, asked)) }); err != nil {
		return false, fmt.Errorf("store what %s is now: %w", id, err)
	}
	refused, err := s.refused(ctx, r)
	return slices.ContainsFunc(refused, func(x ledger.Proxy) bool { return x.ProxyID == id }), err
}

// market caches offers by filter: many proxies of one kind make one request.
type market map[upstream.OfferFilter][]upstream.Offer

// offerFor finds what a proxy is replaced by; ok is false when nothing fits.
func (s *Sweeper) offerFor(ctx context.Context, r *scheduleRunner, p ledger.Proxy, m market) (offer upstream.Offer, ok bool, err error) {
	like := upstream.OfferFilter{CountryCode: p.CountryCode, Line: p.LineName, IPType: p.IPType, Quantity: 1, DurationDays: r.DurationDays}
	offers, asked := m[like]
	if !asked {
		if offers, err = s.Offers(ctx, like); err != nil {
			return offer, false, fmt.Errorf("read the offers for a replacement of %s: %w", p.ProxyID, err)
		}
		m[like] = offers
	}
	offer, ok = bestOffer(offers, p, r.DurationDays, r.Replace.MaxCents)
	if !ok && !asked {
		s.log(r).WithField("proxy_id", p.ProxyID).Warn("the provider will not renew it, and no offer of the same country, line, type and protocol is within replace.max_cents: it is not replaced, and neither are others of its kind")
	}
	return offer, ok, nil
}

// replaceOne records the order; nil when nothing fits, or nothing is to be
// replaced.
func (s *Sweeper) replaceOne(ctx context.Context, r *scheduleRunner, p ledger.Proxy, m market) (json.RawMessage, error) {
	offer, ok, err := s.offerFor(ctx, r, p, m)
	if err != nil || !ok {
		return nil, err
	}
	if refused, err := s.stillRefused(ctx, r, p.ProxyID); err != nil || !refused {
		return nil, err
	}
	c := command.OrderCommand{
		ID: replacementID(r.Schedule, p), DurationDays: r.DurationDays, Items: []command.Item{{OfferCode: offer.OfferCode, Quantity: 1}},
		MaxTotalCents: &r.Replace.MaxCents, Labels: map[string]string{},
	}
	for name, value := range p.Labels { // the new one belongs where the old one did
		if fact.ClearLabel(name, value) == nil {
			c.Labels[name] = value
		}
	}
	c.Labels[labelSchedule], c.Labels[labelReplaces] = r.Name, p.ProxyID
	if fact.CheckLabels(c.Labels) != nil {
		c.Labels = map[string]string{labelSchedule: r.Name, labelReplaces: p.ProxyID}
	}
	command, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode the replacement of %s: %w", p.ProxyID, err)
	}
	err = s.Ledger.Write(ctx, func(tx *ledger.Tx) error {
		return tx.Append(fact.ProxyReplaced{
			ProxyID: p.ProxyID, Schedule: r.Name, Reason: "the provider did not renew it", ExpiresAt: p.ExpiresAt.UTC(),
			CommandID: c.ID, Command: command, MaxTotalCents: r.Replace.MaxCents,
		})
	})
	if err != nil {
		return nil, fmt.Errorf("record the replacement of %s: %w", p.ProxyID, err)
	}
	s.log(r).WithField("proxy_id", p.ProxyID).WithField("command_id", c.ID).Warn("the provider will not renew it: another is ordered in its place")
	return command, nil
}

// bestOffer is the cheapest of the same country, line, type and protocol within
// the ceiling, of the same region if there is one.
func bestOffer(offers []upstream.Offer, p ledger.Proxy, days, ceiling int64) (upstream.Offer, bool) {
	cost := func(o upstream.Offer) int64 { return offerCost(o, days) }
	fitting := slices.DeleteFunc(slices.Clone(offers), func(o upstream.Offer) bool {
		return !command.ValidID(o.OfferCode) || !offersLike(o, p, days) || cost(o) > ceiling
	})
	if len(fitting) == 0 {
		return upstream.Offer{}, false
	}
	elsewhere := func(o upstream.Offer) int {
		if o.Region == p.Region {
			return 0
		}
		return 1
	}
	return slices.MinFunc(fitting, func(a, b upstream.Offer) int {
		return cmp.Or(elsewhere(a)-elsewhere(b), cmp.Compare(cost(a), cost(b)), strings.Compare(a.OfferCode, b.OfferCode))
	}), true
}

// replacementID is a function of the schedule, the proxy and its expiry: a proxy
// is replaced once.
func replacementID(s Schedule, p ledger.Proxy) string {
	h := fact.AppendField(newHash(s.Name), p.ProxyID)
	h = binary.BigEndian.AppendUint64(h, uint64(p.ExpiresAt.UnixMicro()))
	return hashedID("replace-"+s.Name+"-", h)
}
