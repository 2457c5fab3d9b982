package schedules

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/queue"
	"perennial/schedules/plans"
	"perennial/upstream"
)

type replacer struct{ *Config }

// Orders replacements for the refused proxies. The fact of a replacement also retires the
// replaced proxy. The caller must hold the schedule's lock turn.
func (s *replacer) replace(ctx context.Context, r *scheduleRunner) error {
	if !r.Replace.Enabled || s.Offers == nil || s.Proxy == nil {
		return nil
	}
	unsent, err := s.Ledger.Operations.UnsentReplacements(ctx, r.Name)
	if err != nil {
		return fmt.Errorf("read the replacements: %w", err)
	}
	orders := []json.RawMessage{}
	for _, one := range unsent { // the last run may have been interrupted
		orders = append(orders, one.Command)
	}
	replaced, err := s.replaceRefused(ctx, r)
	return errors.Join(err, s.publishAs(ctx, r, queue.KindOrderCreate, append(orders, replaced...)))
}

// replaceRefused records an order for each refused proxy, at most replace.per_day per day.
func (s *replacer) replaceRefused(ctx context.Context, r *scheduleRunner) (orders []json.RawMessage, err error) {
	done, err := s.Ledger.Operations.ReplacedSince(ctx, r.Name, fact.StartOfDay(s.Clock(), r.calendar.Zone))
	if err != nil {
		return nil, fmt.Errorf("count the replacements: %w", err)
	}
	refused, err := s.refused(ctx, r)
	if err != nil {
		return nil, err
	}
	offered := market{}
	for _, p := range refused {
		if done >= cmp.Or(r.Replace.PerDay, plans.DefaultReplacePerDay) {
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

func (s *replacer) refused(ctx context.Context, r *scheduleRunner) ([]tables.Proxy, error) {
	now := s.providerNow()
	all, err := s.Ledger.Operations.Refused(ctx, now.Add(-fact.Day), now.Add(r.RenewBefore), cmp.Or(r.Replace.After, plans.DefaultReplaceAfter))
	if err != nil {
		return nil, fmt.Errorf("read what the provider would not renew: %w", err)
	}
	lists, err := r.Match.ReadLists(s.ReadFile)
	if err != nil {
		return nil, err
	}
	fits := r.Match.Filter(lists)
	return slices.DeleteFunc(all, func(p tables.Proxy) bool { return !fits.Fits(p) }), nil
}

// stillRefused reads a proxy and reports whether it still needs a replacement. An operator
// may have renewed it since the last listing.
func (s *replacer) stillRefused(ctx context.Context, r *scheduleRunner, id string) (bool, error) {
	err := s.readProxy(ctx, id)
	switch {
	case errors.Is(err, upstream.CodeProxyNotFound):
		return true, nil
	case err != nil:
		return false, err
	}
	refused, err := s.refused(ctx, r)
	return slices.ContainsFunc(refused, func(x tables.Proxy) bool { return x.ProxyID == id }), err
}

// market caches offers by filter, because many proxies are of the same kind.
type market map[upstream.OfferFilter][]upstream.Offer

func (s *replacer) offerFor(ctx context.Context, r *scheduleRunner, p tables.Proxy, m market) (offer upstream.Offer, ok bool, err error) {
	like := upstream.OfferFilter{CountryCode: p.CountryCode, Line: p.LineName, IPType: p.IPType, Quantity: 1, DurationDays: r.DurationDays}
	offers, asked := m[like]
	if !asked {
		if offers, err = s.Offers(ctx, like); err != nil {
			return offer, false, fmt.Errorf("read the offers for a replacement of %s: %w", p.ProxyID, err)
		}
		m[like] = offers
	}
	offer, ok = plans.BestOffer(offers, p, r.DurationDays, r.Replace.MaxCents)
	if !ok && !asked {
		s.log(r).WithField("proxy_id", p.ProxyID).Warn("the provider will not renew it, and no offer of the same country, line, type and protocol is within replace.max_cents: it is not replaced, and neither are others of its kind")
	}
	return offer, ok, nil
}

// replaceOne records the order for a replacement and returns it. It returns nil if no offer
// fits, if the provider no longer refuses to renew the proxy, or if the proxy is already
// retired, for example because another schedule replaced it.
func (s *replacer) replaceOne(ctx context.Context, r *scheduleRunner, p tables.Proxy, m market) (json.RawMessage, error) {
	offer, ok, err := s.offerFor(ctx, r, p, m)
	if err != nil || !ok {
		return nil, err
	}
	if refused, err := s.stillRefused(ctx, r, p.ProxyID); err != nil || !refused {
		return nil, err
	}
	c := command.OrderCommand{
		ID: plans.ReplacementID(r.Schedule, p), DurationDays: r.DurationDays, Items: []command.Item{{OfferCode: offer.OfferCode, Quantity: 1}},
		MaxTotalCents: &r.Replace.MaxCents, Labels: map[string]string{},
	}
	for name, value := range p.Labels { // the replacement gets the labels of the replaced proxy
		if fact.ClearLabel(name, value) == nil {
			c.Labels[name] = value
		}
	}
	c.Labels[plans.LabelSchedule], c.Labels[plans.LabelReplaces] = r.Name, p.ProxyID
	if fact.CheckLabels(c.Labels) != nil {
		c.Labels = map[string]string{plans.LabelSchedule: r.Name, plans.LabelReplaces: p.ProxyID}
	}
	command, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encode the replacement of %s: %w", p.ProxyID, err)
	}
	replaced := false
	err = s.Ledger.Write(ctx, func(tx *ledger.Tx) (err error) {
		// Another schedule may have replaced the proxy since it was read.
		if replaced, err = tx.Retired(p.ProxyID); err != nil || replaced {
			return err
		}
		return tx.Append(fact.ProxyReplaced{
			ProxyID: p.ProxyID, Schedule: r.Name, Reason: "the provider did not renew it", ExpiresAt: p.ExpiresAt.UTC(),
			CommandID: c.ID, Command: command, MaxTotalCents: r.Replace.MaxCents,
		})
	})
	if err != nil {
		return nil, fmt.Errorf("record the replacement of %s: %w", p.ProxyID, err)
	}
	if replaced {
		return nil, nil
	}
	s.log(r).WithField("proxy_id", p.ProxyID).WithField("command_id", c.ID).Warn("the provider will not renew it: another is ordered in its place")
	return command, nil
}
