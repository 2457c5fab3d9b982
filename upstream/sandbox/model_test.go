package sandbox_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"perennial/upstream"
	"perennial/upstream/sandbox"
)

// model is the expected state of one account, according to the API document.
type model struct {
	balance int64
	spent   int64 // for orders and renewals
	stock   int64 // of off_de
	records map[string]*expected
	expires map[string]time.Time
}

// expected is the idempotency record of a key.
type expected struct {
	body        string
	traceID     string
	at          time.Time
	interrupted bool
}

// looks returns the reply that the key's record gives. ok is false if the request must be
// executed.
func (m *model) looks(w upstream.Write, now time.Time) (code upstream.Code, traceID string, ok bool) {
	rec := m.records[w.Key]
	switch {
	case rec == nil, !rec.interrupted && now.Sub(rec.at) >= 24*time.Hour:
		delete(m.records, w.Key)
		return "", "", false
	case rec.body != string(w.Body):
		return upstream.CodeIdempotencyKeyConflict, "", true
	case rec.interrupted:
		return upstream.CodeIdempotencyUnresolved, "", true
	}
	return upstream.CodeOK, rec.traceID, true
}

// drawWrite returns a random write with one of a few keys, the model's expected result, and the
// change.
func drawWrite(t *rapid.T, m *model, now time.Time) (w upstream.Write, code upstream.Code, apply func()) {
	key := rapid.SampledFrom([]string{"k1", "k2", "k3", "k4"}).Draw(t, "key")
	days := rapid.SampledFrom([]int64{30, 60, 90, 120, 31, 0}).Draw(t, "days")
	if rapid.Bool().Draw(t, "order") {
		offer := rapid.SampledFrom([]string{"off_us", "off_de", "off_xx"}).Draw(t, "offer")
		n := rapid.Int64Range(0, 4).Draw(t, "quantity")
		w = upstream.Write{Kind: upstream.WriteOrder, Key: key, Body: fmt.Appendf(nil, `{"duration_days":%d,"items":[{"offer_code":%q,"quantity":%d}]}`, days, offer, n)}
		return w, orderCode(m, offer, n, days), func() {
			m.balance -= 300 * n * days / 30
			if offer == "off_de" {
				m.stock -= n
			}
		}
	}
	ids := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"px_1", "px_null", "px_bulk_1", "px_bulk_2", "px_beta"}), 0, 3, rapid.ID[string]).Draw(t, "ids")
	w = upstream.Write{Kind: upstream.WriteRenewal, Key: key, Body: fmt.Appendf(nil, `{"duration_days":%d,"proxy_ids":["%s"]}`, days, strings.Join(ids, `","`))}
	if len(ids) == 0 {
		w.Body = fmt.Appendf(nil, `{"duration_days":%d,"proxy_ids":[]}`, days)
	}
	return w, renewalCode(m, ids, days), func() {
		for _, id := range ids {
			m.balance -= 300 * days / 30
			from := m.expires[id]
			if from.Before(now) {
				from = now
			}
			m.expires[id] = from.AddDate(0, 0, int(days))
		}
	}
}

func orderCode(m *model, offer string, n, days int64) upstream.Code {
	switch {
	case days%30 != 0 || days == 0 || n == 0:
		return upstream.CodeValidationError
	case offer == "off_xx" || offer == "off_de" && n > m.stock:
		return upstream.CodeOfferNotFound
	case days > 90:
		return upstream.CodeValidationError
	case 300*n*days/30 > m.balance:
		return upstream.CodeInsufficientWallet
	}
	return upstream.CodeOK
}

func renewalCode(m *model, ids []string, days int64) upstream.Code {
	switch {
	case days%30 != 0 || days == 0 || len(ids) == 0:
		return upstream.CodeValidationError
	case strings.Contains(strings.Join(ids, " "), "px_beta"):
		return upstream.CodeProxyNotFound
	case 300*int64(len(ids))*days/30 > m.balance:
		return upstream.CodeInsufficientWallet
	}
	return upstream.CodeOK
}

// lifeOf sends random requests of an account. It compares each reply, and then the wallet and
// the expiries, with the model.
func lifeOf(t *rapid.T, h *rig, c *upstream.Client, m *model) {
	for range rapid.IntRange(1, 40).Draw(t, "steps") {
		switch rapid.IntRange(0, 9).Draw(t, "step") {
		case 0:
			h.clock.Advance(time.Duration(rapid.IntRange(0, 30).Draw(t, "hours")) * time.Hour)
			continue
		case 1:
			add := rapid.Int64Range(-m.balance, 5000).Draw(t, "cents")
			h.control("POST", "/wallet", map[string]any{"account_id": "acc_alpha", "environment": "sandbox", "add_cents": add}, nil)
			m.balance += add
			continue
		}
		now := h.clock.Now()
		w, want, apply := drawWrite(t, m, now)
		code, traceID, seen := m.looks(w, now)
		lost := rapid.SampledFrom([]string{"", "", "", "drop_after", "unresolved_record"}).Draw(t, "fault")
		if seen || want != upstream.CodeOK {
			lost = "" // a request that executes nothing gets its reply without the fault
		}
		if lost != "" {
			h.fault(fault{"fault": lost})
		}
		r := c.Post(bg(), w)
		if seen {
			want = code
		}
		if lost == "" && (r.Code != want || r.Success != (want == upstream.CodeOK) || seen && r.Success && r.TraceID != traceID) ||
			lost != "" && r.HTTPStatus != 0 {
			t.Fatalf("%s %s: want %s %s, got %+v", w.Key, w.Body, want, lost, r)
		}
		if !seen && want == upstream.CodeOK {
			before := m.balance
			apply()
			m.spent += before - m.balance
			m.records[w.Key] = &expected{body: string(w.Body), traceID: r.TraceID, at: now, interrupted: lost == "unresolved_record"}
			if lost == "drop_after" { // the key still gets the same reply
				again := c.Post(bg(), w)
				if !again.Success {
					t.Fatalf("%s: %+v", w.Key, again)
				}
				m.records[w.Key].traceID = again.TraceID
			}
		}
		if got := h.balance(c); got != m.balance {
			t.Fatalf("after %s: balance %d, want %d", w.Body, got, m.balance)
		}
	}
	for id, want := range m.expires {
		if p, err := c.Proxy(bg(), id); err != nil || !p.ExpiresAt.Equal(want) {
			t.Fatalf("%s expires at %v, want %v, %v", id, p.ExpiresAt, want, err)
		}
	}
}

// Whatever an account does, each reply is the one in the API document, both in memory and with a
// database that is closed and reopened.
func TestAnswersAreThoseOfTheModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var o func(*sandbox.Options)
		if rapid.IntRange(0, 4).Draw(rt, "memory or database") == 0 {
			o = inDir(t.TempDir(), nil)
		}
		h := start(t, o)
		m := &model{balance: 500000, stock: 3, records: map[string]*expected{}, expires: map[string]time.Time{}}
		now := h.clock.Now()
		m.expires["px_1"] = now.Add(48 * time.Hour)
		m.expires["px_bulk_1"], m.expires["px_bulk_2"] = now.Add(proxyAge(0, 500)), now.Add(proxyAge(1, 500))
		lifeOf(rt, h, h.client(alphaSandbox), m)
		h.booksOf(m)
		if err := h.s.Close(); err != nil || o == nil {
			return
		}
		clock := h.clock
		h = start(t, func(opts *sandbox.Options) { o(opts); opts.Clock = clock.Now })
		h.clock = clock
		lifeOf(rt, h, h.client(alphaSandbox), m)
		h.booksOf(m)
		_ = h.s.Close()
	})
}

// booksOf checks that the referee's charges equal the model's spending.
func (h *rig) booksOf(m *model) {
	h.t.Helper()
	charges, err := h.s.Charges()
	if err != nil {
		h.t.Fatal(err)
	}
	sum := int64(0)
	for _, c := range charges {
		if c.Kind != "charge" || c.AmountCents <= 0 {
			h.t.Errorf("%+v", c)
		}
		sum += c.AmountCents
	}
	if sum != m.spent || m.balance < 0 {
		h.t.Errorf("the referee says %d, the model %d; balance %d", sum, m.spent, m.balance)
	}
}
