package sandbox

import (
	"bytes"
	"crypto/sha256"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// In an order, Stage is the progress so far, and Due is the time of the next step.
type order struct {
	savedOrder

	space   *space
	proxies []*proxy
	past    past[order]
}

type savedOrder struct {
	No, AppID, Key, Scenario, Space  string
	Index                            int
	Created, Due, RefundedAt         time.Time
	Days, Total, Quantity, Delivered int64
	Lines                            []orderLine
	Stage                            orderStage
}

type orderStage uint8

const (
	stagePaid orderStage = iota
	stageProcuring
	stageCompleted
	stageRefunded
)

type orderLine struct {
	OfferCode string   `json:"offer_code"`
	Quantity  int64    `json:"quantity"`
	CIDRs     []string `json:"cidrs,omitempty"` // the name of the member is assumed
}

const (
	maxOrderLines    = 50
	maxOrderQuantity = 2000
)

const scenarioHeader = "X-Service-Sandbox-Scenario"

// scenarioOf returns the scenario in the request. Production orders use "success" (assumed).
func scenarioOf(r *request) (string, *refusal) {
	values := r.http.Header[scenarioHeader]
	switch {
	case r.env == envProduction:
		return "success", nil
	case len(values) == 0:
		return "", nil
	case len(values) == 1 && slices.Contains([]string{"success", "delayed", "partial", "rejected"}, values[0]):
		return values[0], nil
	}
	return "", invalid(scenarioHeader, "must be one of success, delayed, partial, rejected")
}

type writes struct {
	*world

	reads *reads
}

func (s *writes) createOrder(r *request, ch *change) (reply, *refusal) {
	scenario, no := scenarioOf(r)
	if no != nil {
		return reply{}, no
	}
	o, quantities, no := s.orderOf(r)
	if no != nil {
		return reply{}, no
	}
	now := s.now()
	o.Scenario = scenario
	o.No, o.Created, o.Index = s.st.nextID("ord_"), now, len(o.space.orders)
	for code, quantity := range quantities {
		s.addStock(o.space, code, -quantity, ch)
	}
	s.money(ch, o.space, Charge{AppID: o.AppID, IdempotencyKey: o.Key, Reason: "order", OrderNo: o.No}, -o.Total)
	ch.saveWallet(o.space)
	keepPast(s.world, &o.past, nil)
	o.space.orders = append(o.space.orders, o)
	s.st.orders[o.No] = o
	if o.Scenario == "" {
		s.deliver(o, now, ch)
	} else {
		o.Due = now.Add(s.delay(o))
		s.st.schedule(o)
	}
	ch.put("order", o.No, o.savedOrder)
	return s.envelope(http.StatusCreated, "ok", "ok", s.reads.orderDetail(o)), nil
}

// delay returns the time until the order's next step. A partial delivery lasts for at least two
// polls, so that a client that obeys poll_after_seconds sees it.
func (s *writes) delay(o *order) time.Duration {
	half := s.opts.AsyncDelay / 2
	switch {
	case o.Scenario == "delayed":
		half = s.opts.DelayedDelay / 2
	case o.Scenario == "partial" && o.Stage == stageProcuring:
		half = max(half, 2*time.Duration(s.opts.PollAfterSeconds)*time.Second)
	}
	return half
}

// advance executes the order steps that are due. It runs before every request. The caller
// holds the lock.
func (s *writes) advance() {
	now := s.now()
	for len(s.st.pending) > 0 && !s.st.pending[0].Due.After(now) {
		o := s.st.pending[0]
		s.st.pending = s.st.pending[1:]
		ch := s.newChange()
		s.step(o, ch)
		ch.put("order", o.No, o.savedOrder)
		s.submit(ch)
	}
}

func (s *writes) step(o *order, ch *change) {
	was := *o
	was.past = nil // the list of past values must not hold itself
	keepPast(s.world, &o.past, &was)
	switch {
	case o.Stage == stagePaid:
		o.Stage = stageProcuring
		if o.Scenario == "partial" {
			o.Delivered = o.Quantity / 2
		}
		o.Due = o.Due.Add(s.delay(o))
		s.st.schedule(o)
	case o.Scenario == "rejected":
		s.reject(o, ch)
	default:
		s.deliver(o, o.Due, ch)
	}
}

func (s *writes) reject(o *order, ch *change) {
	o.Stage, o.RefundedAt = stageRefunded, o.Due
	s.money(ch, o.space, Charge{AppID: o.AppID, IdempotencyKey: o.Key, Reason: "order", OrderNo: o.No}, o.Total)
	for _, line := range o.Lines {
		s.addStock(o.space, line.OfferCode, line.Quantity, ch)
	}
	ch.saveWallet(o.space)
}

func (s *writes) addStock(sp *space, code string, n int64, ch *change) {
	id := sp.env + "/" + code
	s.st.stock[id] += n
	ch.put("stock", id, s.st.stock[id])
}

func (s *writes) deliver(o *order, at time.Time, ch *change) {
	o.Stage, o.Delivered = stageCompleted, o.Quantity
	at = at.Truncate(time.Second)
	for _, line := range o.Lines {
		for range line.Quantity {
			p := &proxy{savedProxy: savedProxy{ID: s.st.nextID("px_"), OrderNo: o.No, Starts: at, Expires: at.AddDate(0, 0, int(o.Days))},
				space: o.space, offer: s.st.byCode[line.OfferCode]}
			keepPast(s.world, &p.past, nil)
			s.st.addProxy(p)
			o.proxies = append(o.proxies, p)
			ch.put("proxy", p.ID, p.savedProxy)
		}
	}
}

// orderBody is the body of an order. A body in the legacy form becomes one order line.
type orderBody struct {
	days   int64
	lines  []orderLine
	legacy bool
}

func (in *orderBody) field(line int, name string) string {
	if in.legacy {
		return name
	}
	return "items." + strconv.Itoa(line) + "." + name
}

func readOrderBody(body []byte) (orderBody, *refusal) {
	var sent struct {
		DurationDays int64       `json:"duration_days"`
		OfferCode    *string     `json:"offer_code"`
		Quantity     *int64      `json:"quantity"`
		Items        []orderLine `json:"items"`
	}
	no := decodeBody(body, &sent)
	in := orderBody{days: sent.DurationDays, lines: sent.Items}
	switch {
	case no != nil:
		return in, no
	case sent.Items != nil && (sent.OfferCode != nil || sent.Quantity != nil):
		return in, invalid("items", "must not appear together with offer_code or quantity")
	case (sent.OfferCode != nil) != (sent.Quantity != nil):
		missing := map[bool]string{true: "quantity", false: "offer_code"}[sent.OfferCode != nil]
		return in, invalid(missing, "is missing: offer_code and quantity belong together")
	case sent.OfferCode != nil:
		in.lines, in.legacy = []orderLine{{OfferCode: *sent.OfferCode, Quantity: *sent.Quantity}}, true
	case len(in.lines) == 0 || len(in.lines) > maxOrderLines:
		return in, invalid("items", "must have 1 to 50 lines")
	}
	if in.days <= 0 || in.days%30 != 0 {
		return in, invalid("duration_days", "must be a positive multiple of 30")
	}
	return in, nil
}

func (s *writes) orderOf(r *request) (*order, map[string]int64, *refusal) {
	in, no := readOrderBody(r.body)
	if no != nil {
		return nil, nil, no
	}
	quantities, no := s.checkLines(r.env, in)
	if no != nil {
		return nil, nil, no
	}
	sp := r.key.space
	o := &order{savedOrder: savedOrder{AppID: r.key.appID, Key: r.idempotencyKey(), Space: sp.id(), Days: in.days, Lines: in.lines}, space: sp}
	for code, quantity := range quantities {
		o.Quantity += quantity
		o.Total += o.space.price(s.st.byCode[code], quantity, in.days)
	}
	return o, quantities, o.space.affords(o.Total)
}

// checkLines checks quantities, stock, durations and CIDRs. The stock may have changed since the
// client read the offer, because an offer reserves nothing.
func (s *writes) checkLines(env string, in orderBody) (map[string]int64, *refusal) {
	quantities, sum := map[string]int64{}, int64(0)
	for i, line := range in.lines {
		if line.OfferCode == "" {
			return nil, invalid(in.field(i, "offer_code"), "is missing")
		}
		if line.Quantity <= 0 || line.Quantity > maxOrderQuantity {
			return nil, invalid(in.field(i, "quantity"), "must be 1 to 2000")
		}
		quantities[line.OfferCode] += line.Quantity
		sum += line.Quantity
	}
	if sum > maxOrderQuantity {
		return nil, invalid("items", "the quantities sum to more than 2000")
	}
	for i, line := range in.lines {
		offer := s.st.byCode[line.OfferCode]
		if offer == nil || s.st.stock[env+"/"+line.OfferCode] < quantities[line.OfferCode] {
			return nil, refuse("offer_not_found", "An offer is unknown or no longer available.")
		}
		if !slices.Contains(offer.DurationDays, in.days) {
			return nil, invalid("duration_days", "is not supported by %s", line.OfferCode)
		}
		if offer.MaxQuantity > 0 && quantities[line.OfferCode] > offer.MaxQuantity {
			return nil, invalid(in.field(i, "quantity"), "is over the offer's max_quantity")
		}
	}
	if i, message := checkCIDRs(in.lines, s.st.byCode); message != "" {
		return nil, invalid(in.field(i, "cidrs"), "%s", message)
	}
	return quantities, nil
}

func checkCIDRs(lines []orderLine, offers map[string]*FixtureOffer) (line int, message string) {
	random, chosen := map[string]bool{}, map[[2]string]bool{}
	choosing := map[string]bool{}
	for i, line := range lines {
		if len(line.CIDRs) == 0 {
			random[line.OfferCode] = true
		}
		for _, c := range line.CIDRs {
			pair := [2]string{line.OfferCode, c}
			if chosen[pair] {
				return i, "the same CIDR appears twice"
			}
			if !slices.Contains(offers[line.OfferCode].CIDRs, c) {
				return i, "is not one of the offer's CIDRs"
			}
			chosen[pair], choosing[line.OfferCode] = true, true
		}
		if random[line.OfferCode] && choosing[line.OfferCode] {
			return i, "random allocation and chosen CIDRs must not be mixed for one offer"
		}
	}
	return 0, ""
}

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
			was := *p
			was.past = nil // the list of past values must not hold itself
			keepPast(s.world, &p.past, &was)
			p.Expires = p.extended(in.Days, s.now())
			ch.put("proxy", p.ID, p.savedProxy)
		}
		result.add(p, verdicts[i], in.Days, cents, refunded)
	}
	ch.saveWallet(sp)
	return s.renewalReply(sp, result), nil
}

// extended returns the expiry after a renewal. The renewal adds the days to the current expiry,
// or to now if the expiry is past or null (assumed).
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

// retention is the lifetime of a completed record, by the sandbox's clock (assumed).
const retention = 24 * time.Hour

type recordState uint8

const (
	recordProcessing recordState = iota
	recordCompleted
	recordInterrupted
)

// record is an idempotency record. Both POST routes share the keys of a space (assumed).
type record struct {
	savedRecord

	// durable becomes true after the commit of the operation. Before the commit, the record
	// replies idempotency_processing.
	durable bool
}

type savedRecord struct {
	Space, Key string
	Hash       []byte
	State      recordState
	At         time.Time
	Status     int
	Code       string
	Body       []byte
}

func (c *change) saveRecord(rec *record) { c.put("record", rec.Space+"/"+rec.Key, rec.savedRecord) }

func bodyHash(path string, body []byte) []byte {
	sum := sha256.Sum256(append([]byte(path+"\x00"), body...))
	return sum[:]
}

// known returns the reply to a request whose key has a record. It returns false if the key
// has no record, or if the retention of its record has passed. The caller holds the lock.
func (s *writes) known(r *request, key string, hash []byte) (reply, bool) {
	rec := r.key.space.records[key]
	if rec == nil {
		return reply{}, false
	}
	if s.forgotten(rec) {
		delete(r.key.space.records, key)
		return reply{}, false
	}
	switch {
	case !bytes.Equal(rec.Hash, hash):
		return s.refused(refuse("idempotency_key_conflict", "The key was used with a different body.")), true
	case rec.State == recordInterrupted:
		return s.refused(refuse("idempotency_unresolved", "An earlier request needs verification.")), true
	case rec.State == recordProcessing || !rec.durable:
		return s.refused(refuse("idempotency_processing", "The same operation is still in progress.")), true
	}
	return reply{status: rec.Status, code: rec.Code, body: rec.Body, replayed: true}, true
}

func (s *writes) forgotten(rec *record) bool {
	return rec.State == recordCompleted && rec.durable && s.now().Sub(rec.At) >= retention
}

// complete stores the first reply to a request. It returns a function to call after the
// commit. From then on, the reply can be repeated. The caller holds the lock.
func (s *writes) complete(r *request, key string, hash []byte, out reply, interrupted bool, ch *change) func() {
	sp := r.key.space
	rec := &record{savedRecord: savedRecord{sp.id(), key, hash, recordCompleted, s.now(), out.status, out.code, out.body}}
	if interrupted {
		rec.State, rec.Body = recordInterrupted, nil
	}
	sp.records[key] = rec
	s.forget(ch)
	s.st.expiring = append(s.st.expiring, rec)
	ch.saveRecord(rec)
	return func() {
		s.st.mu.Lock()
		rec.durable = true
		s.st.mu.Unlock()
	}
}

func (s *writes) forget(ch *change) {
	now := s.now()
	for n := 0; n < 4 && len(s.st.expiring) > 0; n++ {
		rec := s.st.expiring[0]
		if now.Sub(rec.At) < retention {
			return
		}
		s.st.expiring = s.st.expiring[1:]
		if records := s.st.spaces[rec.Space].records; records[rec.Key] == rec && s.forgotten(rec) {
			delete(records, rec.Key)
			ch.put("record", rec.Space+"/"+rec.Key, nil)
		}
	}
}

func (s *writes) interrupt(sp *space, key string, hash []byte) {
	rec := sp.records[key]
	if rec == nil || !bytes.Equal(rec.Hash, hash) || s.forgotten(rec) {
		return
	}
	rec.State = recordInterrupted
	c := s.newChange()
	c.saveRecord(rec)
	s.submit(c)
}
