// The renewals that a run makes, each once.

package conformance

import (
	"encoding/json"
	"net/http"
	"time"
)

// renewed is one renewal of proxies that the run bought.
type renewed struct {
	why   string
	key   string
	body  []byte
	ids   []string
	days  int64
	reply reply
	around
	expiry [2]map[string]time.Time // of each id before and after
}

// renew makes one renewal of the table once.
func (s *session) renew(name string) *renewed {
	return memo(s, "renew "+name, func() *renewed {
		p := findPurchase(renewals, name)
		o, why := s.chosenOffer()
		ids := s.ownProxies()
		switch {
		case why != "":
		case int64(len(ids)) < p.quantity:
			why = "the run has no proxy of its own: " + s.buy("plain").why
		default:
			why = s.afford(o.estimate(p))
		}
		if why != "" {
			return &renewed{why: why}
		}
		out := &renewed{key: s.newKey("renew-" + name), ids: ids[:p.quantity], days: p.days}
		out.body = renewBody(out.ids, p.days)
		out.expiry[0] = s.expiries(out.ids)
		out.around = s.around(func() { out.reply = s.send(out.request()) })
		out.expiry[1] = s.expiries(out.ids)
		if !out.reply.succeeded() && name != "failed" {
			out.why = "the renewal was refused: " + out.reply.seen()
		}
		return out
	})
}

func (r *renewed) request() request {
	return request{method: http.MethodPost, path: "/api/v1/proxies/renew", key: r.key, body: r.body}
}

func renewBody(ids []string, days any) []byte {
	raw, _ := json.Marshal(map[string]any{"proxy_ids": ids, "duration_days": days}) // marshals by construction
	return raw
}

func (s *session) expiries(ids []string) map[string]time.Time {
	out := make(map[string]time.Time, len(ids))
	for _, id := range ids {
		r := s.get("/api/v1/proxies/" + rfc3986(id))
		out[id], _ = timeOf(r.data()["expires_at"])
	}
	return out
}

// renewalMade gives a renewal that was carried out.
func renewalMade(name string) func(*session) (*renewed, string) {
	return func(s *session) (*renewed, string) {
		r := s.renew(name)
		return r, r.why
	}
}
