// Renewals.

package sandbox

import (
	"net/http"
	"slices"
	"strconv"
	"time"
)

const (
	maxRenewIDs  = 5000 // in one renewal; assumed, because the API document gives no number
	maxRenewDays = 1095
	lastYear     = 9999 // of an expiry: ISO 8601 has four digits; assumed
)

type renewBody struct {
	IDs  []string `json:"proxy_ids"`
	Days int64    `json:"duration_days"`
}

func readRenewBody(body []byte) (renewBody, *refusal) {
	var in renewBody
	no := decodeBody(body, &in)
	empty := slices.Index(in.IDs, "") // a null becomes "" too
	switch {
	case no != nil:
	case len(in.IDs) == 0 || len(in.IDs) > maxRenewIDs:
		no = invalid("proxy_ids", "must have 1 to %d entries", maxRenewIDs)
	case empty >= 0:
		no = invalid("proxy_ids."+strconv.Itoa(empty), "must not be empty")
	case in.Days <= 0 || in.Days%30 != 0 || in.Days > maxRenewDays:
		no = invalid("duration_days", "must be a positive multiple of 30, at most 1095")
	}
	return in, no
}

func (s *writes) renewalOf(r *request) (in renewBody, chosen []*proxy, total int64, no *refusal) {
	if in, no = readRenewBody(r.body); no != nil {
		return in, nil, 0, no
	}
	if chosen, no = s.chosenProxies(r.key.space, in); no != nil {
		return in, nil, 0, no
	}
	for _, p := range chosen {
		total += r.key.space.price(p.offer, 1, in.Days)
	}
	return in, chosen, total, r.key.space.affords(total)
}

func (s *writes) chosenProxies(sp *space, in renewBody) ([]*proxy, *refusal) {
	chosen := make([]*proxy, 0, len(in.IDs))
	seen := make(map[string]bool, len(in.IDs))
	now := s.now()
	for i, id := range in.IDs {
		p := s.st.proxies[id]
		if p == nil || p.space != sp {
			return nil, refuse("proxy_not_found", "A proxy is unknown.")
		}
		if seen[id] {
			return nil, invalid("proxy_ids."+strconv.Itoa(i), "appears twice")
		}
		if p.extended(in.Days, now).Year() > lastYear {
			return nil, invalid("duration_days", "leads past the year 9999")
		}
		seen[id] = true
		chosen = append(chosen, p)
	}
	return chosen, nil
}

// renew charges for all proxies, refunds the failed ones, and extends the successful ones. The
// charge for an unresolved proxy remains.
func (s *writes) renew(r *request, ch *change, f renewalFault) (reply, *refusal) {
	in, chosen, total, no := s.renewalOf(r)
	if no != nil {
		return reply{}, no
	}
	sp, result := r.key.space, renewalResult{total: total, ids: map[string][]string{}}
	verdicts := f.verdicts(chosen)
	line := Charge{AppID: r.key.appID, IdempotencyKey: r.idempotencyKey(), Reason: "renewal"}
	for i, p := range chosen {
		cents := sp.price(p.offer, 1, in.Days)
		line.ProxyID = p.ID
		s.money(ch, sp, line, -cents)
		refunded := int64(0)
		switch verdicts[i] {
		case "failed":
			s.money(ch, sp, line, cents)
			refunded = cents
		case "succeeded":
			s.quirks.proxyChanges(p)
			p.Expires = p.extended(in.Days, s.now())
			ch.put("proxy", p.ID, p.savedProxy)
		}
		result.add(p, verdicts[i], in.Days, cents, refunded)
	}
	ch.saveWallet(sp)
	return s.renewalReply(sp, result), nil
}

// extended returns the new expiry. It counts from the current expiry, or from now if the expiry
// is past or null (assumed).
func (p *proxy) extended(days int64, now time.Time) time.Time {
	from := p.Expires
	if from.Before(now) {
		from = now.Truncate(time.Second)
	}
	return from.AddDate(0, 0, int(days))
}

type renewalResult struct {
	total, refunded int64
	ids             map[string][]string // the key is the verdict
	lines           []rawJSON
}

func (x *renewalResult) add(p *proxy, verdict string, days, cents, refunded int64) {
	x.ids[verdict] = append(x.ids[verdict], p.ID)
	x.refunded += refunded
	x.lines = append(x.lines, object("proxy_id", p.ID, "host", p.host(), "status", verdict, "duration_days", days, "amount_cents", cents,
		"amount", decimal(cents), "charged_cents", cents-refunded, "refunded_cents", refunded))
}

func (x *renewalResult) status() string {
	switch {
	case len(x.ids["unresolved"]) > 0:
		return "manual_review"
	case len(x.ids["failed"]) == 0:
		return "completed"
	case len(x.ids["succeeded"]) == 0:
		return "failed"
	}
	return "partial"
}

func (s *writes) renewalReply(sp *space, x renewalResult) reply {
	status := x.status()
	data := []any{"status", status, "total_cents", x.total, "charged_cents", x.total - x.refunded, "refunded_cents", x.refunded,
		"successful_proxy_ids", x.ids["succeeded"], "failed_proxy_ids", x.ids["failed"], "unresolved_proxy_ids", x.ids["unresolved"], "line_items", array(x.lines)}
	if status == "failed" {
		data = append(data, "wallet", object("currency", sp.currency, "balance_cents", sp.balance))
		return s.envelope(http.StatusUnprocessableEntity, "operation_failed", "No proxy was renewed.", object(data...))
	}
	return s.ok(object(data...))
}
