package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/jobs/reconcile"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/upstream"
)

// Evidence is what is known about an operation that needs review. Notes says which data from
// the provider is missing, and why.
type Evidence struct {
	OperationStatus
	History      []HistoryEntry     `json:"history"`
	Expiries     []ExpiryEvidence   `json:"expiries"`
	Orders       []OrderEvidence    `json:"unknown_orders"`
	WalletBefore *tables.Reconciled `json:"wallet_before" doc:"The last time before the first attempt when wallet and ledger agreed."`
	WalletAfter  *tables.Reconciled `json:"wallet_after" doc:"The first time after the last fact when wallet and ledger agreed."`
	WalletNow    *WalletRead        `json:"wallet_now,omitempty" doc:"The wallet now, if it was read."`
	WalletGap    *int64             `json:"wallet_gap_cents,omitempty" doc:"By how much the provider's wallet is now below the ledger's; omitted if something else may explain the difference, or the wallet was not read."`
	Verdict      *Verdict           `json:"verdict,omitempty" doc:"What the evidence says about the unresolved part; omitted if nothing is unresolved."`
	Answers      []Answer           `json:"answers"`
	Notes        []string           `json:"notes,omitempty" doc:"What could not be read, and why."`

	OrdersRead bool `json:"-"` // all orders of the provider were read and compared

	asked bool            // the provider was asked
	order *upstream.Order // the operation's order as the provider shows it now; nil if it was not read
}

// WalletRead is the provider's wallet at the time of a read. Operations in progress may not
// be included yet.
type WalletRead struct {
	ProviderCents int64     `json:"provider_cents" doc:"The balance of the provider's wallet."`
	LedgerCents   int64     `json:"ledger_cents" doc:"The ledger balance at that time."`
	At            time.Time `json:"at" doc:"When this was read."`
}

// HistoryEntry is one fact about the operation, such as a send, a reply or a decision.
type HistoryEntry struct {
	Seq        int64      `json:"seq" doc:"The sequence of the journal row, from 1 without a gap. It is also the message's sequence in the stream."`
	Time       time.Time  `json:"time" doc:"When the fact was written to the journal."`
	Type       string     `json:"type" doc:"The type of the fact."`
	Attempt    int64      `json:"attempt,omitempty" doc:"The number of the attempt, from 1."`
	Code       string     `json:"code,omitempty" doc:"The reason, as a code of the provider or of Perennial."`
	HTTPStatus int        `json:"http_status,omitempty" doc:"The HTTP status of the reply."`
	Ambiguous  bool       `json:"ambiguous,omitempty" doc:"Whether the provider may have carried out the request."`
	TraceID    string     `json:"trace_id,omitempty" doc:"The provider's trace id of the request, for its support."`
	Text       string     `json:"text,omitempty" doc:"What the fact says, for people."`
	BodyBytes  int        `json:"body_bytes,omitempty" doc:"'body_bytes' is the length of the body that was sent."`
	NextAt     *time.Time `json:"next_at,omitempty" doc:"'next_at' is the earliest time of the next send or read that was decided."`
}

// ExpiryEvidence is a proxy's expiry before the renewal and now. If either is unknown,
// Moved has no value.
type ExpiryEvidence struct {
	ProxyID string     `json:"proxy_id" doc:"The provider's id of the proxy."`
	State   string     `json:"state" doc:"The state."`
	Before  *time.Time `json:"before" doc:"The expiry before the renewal, if known."`
	Now     *time.Time `json:"now" doc:"The expiry now, if known."`
	Moved   *bool      `json:"moved" doc:"Whether the expiry moved; null if one of the two is unknown."`

	read bool // the provider showed the proxy, or does not know it
}

// MovedText says by how many days the expiry moved, such as "by 30 days".
func (x ExpiryEvidence) MovedText() string {
	switch {
	case x.Moved == nil:
		return "not known"
	case !*x.Moved:
		return "no"
	}
	return "by " + english.Plural(int((x.Now.Sub(*x.Before)+fact.Day/2)/fact.Day), "day", "")
}

// OrderEvidence is an order at the provider that the ledger does not have and that the
// operation may have made.
type OrderEvidence struct {
	OrderNo   string     `json:"order_no" doc:"The provider's number of the order."`
	CreatedAt time.Time  `json:"created_at" doc:"When the order was created, as the provider says."`
	NetCents  fact.Cents `json:"net_cents" doc:"The cost of the order, less refunds; null while the provider shows no total."`
}

// Answer is one possible answer to the review, with the bookings that it would make.
type Answer struct {
	Say          string           `json:"say" doc:"The flags for 'reviews resolve'."`
	ProxyID      string           `json:"line,omitempty" doc:"The proxy that the answer is for; if omitted, the whole operation."`
	Bookings     []ledger.Booking `json:"books"`
	NewOperation string           `json:"new_operation_id,omitempty" doc:"'new_operation_id' and 'new_idempotency_key' are the ids that --send-again would use."`
	NewKey       string           `json:"new_idempotency_key,omitempty" doc:"The idempotency key that --send-again would use."`
}

// AsksAmount reports whether the operator must supply the amount, because it is unknown.
func (a Answer) AsksAmount() bool { return strings.Contains(a.Say, askAmount) }

// askAmount has the flags of an answer whose amount is not known. The operator must confirm such
// an amount.
const askAmount = "--charged AMOUNT --confirm-amount AMOUNT"

// CollectEvidence collects what the ledger knows about an operation and, through c, what
// the provider shows now. If c is nil, the provider is not asked. It returns
// ledger.ErrNotFound for an unknown id.
func CollectEvidence(ctx context.Context, l *ledger.Ledger, c *reconcile.Reconciler, id string) (Evidence, error) {
	o, err := l.Operations.Operation(ctx, id)
	if err != nil {
		return Evidence{}, err
	}
	currency, err := l.Currency(ctx)
	if err != nil {
		return Evidence{}, err
	}
	e := Evidence{OperationStatus: OperationStatusOf(o, currency), Expiries: []ExpiryEvidence{}, Orders: []OrderEvidence{}, Answers: []Answer{}}
	if e.Lines, err = l.Operations.Lines(ctx, id); err != nil {
		return e, err
	}
	if err := e.history(ctx, l); err != nil {
		return e, err
	}
	lost, err := renewedInLostTime(ctx, l, o)
	if err != nil {
		return e, err
	}
	for _, x := range e.Lines {
		e.Expiries = append(e.Expiries, ExpiryEvidence{ProxyID: x.ProxyID, State: string(x.State), Before: cmp.Or(lost[x.ProxyID], x.ObservedExpiresAt)})
	}
	if c == nil {
		e.Notes = append(e.Notes, "no `perennial run` answers: this is what the ledger alone knows")
	} else {
		e.fromProvider(ctx, c, o)
	}
	if err := e.answers(ctx, l, o); err != nil {
		return e, err
	}
	err = e.sweptAnswers(ctx, l)
	return e, err
}

// renewedInLostTime returns the expiries that proxies had before they were renewed in the time that a
// restored ledger has lost, if the operation may have been sent in that time.
func renewedInLostTime(ctx context.Context, l *ledger.Ledger, o fact.Operation) (before map[string]*time.Time, err error) {
	if o.FirstAmbiguousAt == nil || o.FirstSentAt != nil && !o.FirstAmbiguousAt.Before(*o.FirstSentAt) || !o.Kind.OfProxies() {
		return nil, nil //nolint:nilnil // it was not
	}
	f, _, err := l.Operations.Resumed(ctx)
	if errors.Is(err, ledger.ErrNotFound) {
		err = nil
	}
	before = map[string]*time.Time{}
	for _, x := range f.Renewed {
		before[x.ProxyID] = &x.ExpiresAt
	}
	return before, err
}

// Reads the operation's facts, and the nearest reconciliations before and after them in which
// wallet and ledger agreed.
func (e *Evidence) history(ctx context.Context, l *ledger.Ledger) error {
	rows, err := l.RowsOf(ctx, e.OperationID)
	if err != nil || len(rows) == 0 {
		return err
	}
	for _, r := range rows {
		f, err := fact.Decode(r.Type, []byte(r.Data))
		if err != nil {
			return err
		}
		h := entryOf(f, e.Currency)
		h.Seq, h.Time, h.Type = r.Seq, r.Instant(), r.Type
		e.History = append(e.History, h)
		if text := correctionText(f, e.Currency); text != "" {
			e.Corrected = append(e.Corrected, text)
		}
	}
	if e.WalletBefore, _, err = l.Money.ReconciledAround(ctx, rows[0].Seq); err != nil {
		return err
	}
	_, e.WalletAfter, err = l.Money.ReconciledAround(ctx, rows[len(rows)-1].Seq)
	return err
}

func entryOf(f fact.Fact, currency string) HistoryEntry {
	switch f := f.(type) {
	case fact.OperationSending:
		return HistoryEntry{Attempt: f.Attempt, BodyBytes: len(f.Body), Text: "sent as " + f.AppID + ": " + fact.Bounded(f.Body)}
	case fact.OperationUnsent:
		return HistoryEntry{Attempt: f.Attempt, TraceID: f.TraceID, Text: f.Reason, NextAt: &f.NextAt}
	case fact.OperationWaiting:
		return HistoryEntry{Attempt: f.Attempt, Code: f.Code, HTTPStatus: f.HTTPStatus, Ambiguous: f.Ambiguous, TraceID: f.TraceID, Text: f.Reason, NextAt: &f.NextAt}
	case fact.OperationReview:
		return HistoryEntry{Attempt: f.Attempt, Code: f.Code, HTTPStatus: f.HTTPStatus, Ambiguous: f.Ambiguous, TraceID: f.TraceID, Text: f.Reason}
	case fact.OperationResolved:
		return HistoryEntry{Text: decidedText(f.Outcome, f.ChargedCents, currency, f.ProxyID, f.By, f.User, f.Reason)}
	case fact.LedgerRecorded:
		return HistoryEntry{Text: decidedText(f.Movement, f.AmountCents, currency, f.ProxyID, f.By, f.User, f.Reason)}
	case fact.OrderAccepted:
		return HistoryEntry{Attempt: f.Attempt, TraceID: f.TraceID, Text: "order " + f.OrderNo, NextAt: &f.NextAt}
	case fact.OrderProgressed:
		return HistoryEntry{TraceID: f.TraceID, Text: fmt.Sprintf("status %q, %d of %d delivered: %s", f.Status, f.DeliveredCount, f.ExpectedCount, f.Reason), NextAt: &f.NextAt}
	case fact.RenewalSettled:
		return HistoryEntry{Attempt: f.Attempt, Code: f.Code, TraceID: f.TraceID, Text: f.Status}
	case fact.LedgerDiscrepancy:
		return HistoryEntry{TraceID: f.TraceID, Text: f.Explanation}
	}
	return HistoryEntry{}
}

func decidedText(outcome string, cents int64, currency, proxyID, by, user, reason string) string {
	text := outcome + " " + fact.Amount(cents, currency)
	if proxyID != "" {
		text += " for " + proxyID
	}
	return text + ", by " + fact.Signed(by, user) + ": " + reason
}

// readWallet reads the provider's wallet now. While an operation is in review, wallet and ledger
// may differ, so the last reconciliation in which they agreed may be old.
func (e *Evidence) readWallet(ctx context.Context, c *reconcile.Reconciler, o fact.Operation) {
	w, err := c.ReadWallet(ctx)
	if err != nil {
		e.Notes = append(e.Notes, fmt.Sprintf("the wallet could not be read: %v", err))
		return
	}
	now := c.Clock().UTC()
	e.WalletNow = &WalletRead{w.ProviderCents, w.After.WalletCents, now}
	differences, _, err := c.Ledger.Money.PublishedDiscrepancies(ctx)
	if err != nil {
		e.Notes = append(e.Notes, fmt.Sprintf("the wallet could not be compared: %v", err))
		return
	}
	if len(differences) == 0 {
		e.WalletGap = e.gap(w, now.Sub(o.UpdatedAt))
	}
}

// Returns by how much the provider's wallet is below the ledger. It returns nil if something
// other than the operation may be the cause: wallet and ledger never agreed before the operation
// was sent, or other operations are open. It also returns nil if money moved so recently that the
// provider may not show it yet. since is how long the operation has needed review.
func (e *Evidence) gap(w reconcile.WalletReading, since time.Duration) *int64 {
	alone := func(open []tables.Exposure) bool { return len(open) == 1 && open[0].OperationID == e.OperationID }
	if e.WalletBefore == nil || w.Moved || len(w.Earlier) > 0 || since < reconcile.MovesWithin || !alone(w.Before.Open) || !alone(w.After.Open) {
		return nil
	}
	return new(w.After.WalletCents - w.ProviderCents)
}

func (e *Evidence) fromProvider(ctx context.Context, c *reconcile.Reconciler, o fact.Operation) {
	p := &reconcile.Pass{Reconciler: c, Left: c.Reads, Fresh: map[string]bool{}}
	e.asked = true
	e.readWallet(ctx, c, o)
	for i := range e.Expiries {
		x := &e.Expiries[i]
		if !p.May() {
			e.Notes = append(e.Notes, "not every proxy was read")
			return
		}
		proxy, err := reconcile.Fetch(ctx, c, func(ctx context.Context) (upstream.Proxy, error) { return c.Statements.Proxy(ctx, x.ProxyID) })
		x.read = err == nil || errors.Is(err, upstream.CodeProxyNotFound)
		if err != nil {
			e.Notes = append(e.Notes, fmt.Sprintf("proxy %s could not be read: %v", x.ProxyID, err))
			continue
		}
		if x.Now = proxy.ExpiresAt; x.Before != nil && x.Now != nil {
			moved := x.Now.After(*x.Before) && !fact.SameExpiry(*x.Now, *x.Before)
			x.Moved = &moved
		}
	}
	if o.OrderNo != "" {
		e.readOrder(ctx, c, o.OrderNo)
	}
	if !o.Kind.MakesOrder() || o.OrderNo != "" || o.MaybeSentAt() == nil {
		return
	}
	err := p.Outside(ctx)
	if err != nil {
		e.Notes = append(e.Notes, fmt.Sprintf("the provider's orders could not be listed: %v", err))
	}
	e.OrdersRead = e.mayHaveMade(ctx, c, o) && err == nil && len(p.Notes) == 0
	e.Notes = append(e.Notes, p.Notes...)
}

func (e *Evidence) readOrder(ctx context.Context, c *reconcile.Reconciler, no string) {
	order, err := reconcile.Fetch(ctx, c, func(ctx context.Context) (upstream.Order, error) { return c.Statements.Order(ctx, no) })
	if err != nil {
		e.Notes = append(e.Notes, fmt.Sprintf("order %s could not be read: %v", no, err))
		return
	}
	e.order = &order
}

// mayHaveMade adds to e.Orders the unknown orders that the operation may have made. It
// returns false if the orders could not be compared.
func (e *Evidence) mayHaveMade(ctx context.Context, c *reconcile.Reconciler, o fact.Operation) bool {
	m, err := reconcile.MakerOf(ctx, c.Ledger, o)
	recorded, failed := c.Ledger.Money.RecordedFor(ctx)
	if err := errors.Join(err, failed); err != nil {
		e.Notes = append(e.Notes, fmt.Sprintf("the provider's orders could not be compared: %v", err))
		return false
	}
	for _, no := range slices.Sorted(maps.Keys(c.Foreign)) {
		if x := c.Foreign[no]; x.Read && !x.Before && recorded[no] == 0 && m.CannotHaveMade(x) == "" {
			e.Orders = append(e.Orders, OrderEvidence{no, x.CreatedAt, x.NetCents})
		}
	}
	return true
}

// Adds the verdict and the possible answers: for the whole operation if it is in review, and for
// each unresolved line.
func (e *Evidence) answers(ctx context.Context, l *ledger.Ledger, o fact.Operation) error {
	amount, err := e.expected(ctx, l, o)
	if err != nil {
		return err
	}
	ids := []string{""}
	if o.State != fact.StateReview {
		ids = nil // the operation has settled, so only single lines are open
	}
	open, charged := map[string]int64{}, int64(0)
	for _, x := range e.Lines {
		if x.State == fact.LineUnresolved {
			ids, open[x.ProxyID] = append(ids, x.ProxyID), x.ChargedCents-x.RefundedCents
			charged += open[x.ProxyID]
			if o.State == fact.StateReview {
				open[""] += x.ChargedCents - x.RefundedCents
			}
		}
	}
	if len(e.Lines) == 1 {
		ids = ids[:min(len(ids), 1)] // the answer for the whole operation covers its only proxy
	}
	amount = cmp.Or(open[""], amount)
	if len(ids) > 0 {
		expected := amount
		if ids[0] != "" {
			expected = charged
		}
		e.Verdict = e.judge(o, expected, charged)
	}
	if gap := e.ChargedByWallet(); amount == 0 && gap > 0 {
		amount = gap
	}
	b, err := l.Binding(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if id != "" {
			amount = open[id]
		}
		if err := e.answersOf(ctx, l, b, o, id, amount); err != nil {
			return err
		}
	}
	return nil
}

// expected returns the expected cost of an operation, or 0 if it is unknown.
func (e *Evidence) expected(ctx context.Context, l *ledger.Ledger, o fact.Operation) (int64, error) {
	cents := max(o.EstimateCents, o.ChargedCents-o.RefundedCents)
	if len(e.Orders) == 1 {
		cents = e.Orders[0].NetCents.Or(cents)
	}
	if cents > 0 {
		return cents, nil
	}
	costs, err := LastPrices(ctx, l, e.Lines)
	return costs.Sum(), err
}

// Costs has the expected cost in cents of each line of a renewal, by proxy.
type Costs map[string]int64

// Sum returns the expected cost of all lines.
func (c Costs) Sum() (cents int64) {
	for _, x := range c {
		cents += x
	}
	return cents
}

// Reviews lists up to limit reviews, oldest first; a negative limit means no limit. A renewal
// without an estimate is exposed to the prices last paid, as in its evidence.
func Reviews(ctx context.Context, l *ledger.Ledger, limit int) ([]tables.Review, error) {
	all, err := l.Operations.FirstReviews(ctx, limit)
	for i := range all[:min(len(all), pricedReviews)] {
		x := &all[i]
		if x.AtStakeCents.Known() || x.Kind != fact.KindRenewal || x.ProxyID != "" {
			continue
		}
		lines, err := l.Operations.Lines(ctx, x.OperationID)
		if err != nil {
			return nil, err
		}
		costs, err := LastPrices(ctx, l, lines)
		if err != nil {
			return nil, err
		}
		x.AtStakeCents = fact.Estimated(costs.Sum())
	}
	return all, err
}

const (
	pricedReviews = 100 // the reviews for which Reviews looks up prices
	pricedLines   = 100 // the lines for which LastPrices looks up prices
)

// LastPrices returns the expected costs of a renewal's pending lines. The price of a line is the
// price last paid for its proxy or for the proxy's kind. LastPrices returns nil if one price is
// unknown, or if the lines are too many.
func LastPrices(ctx context.Context, l *ledger.Ledger, lines []tables.RenewalLine) (Costs, error) {
	costs := Costs{}
	for _, x := range lines {
		if x.State != fact.LinePending {
			continue
		}
		if len(costs) == pricedLines {
			return nil, nil //nolint:nilnil // as documented
		}
		paid, err := l.Fleet.LastPrice(ctx, x.ProxyID)
		if err != nil {
			return nil, err
		}
		cents := paid.For(x.DurationDays)
		if !cents.Known() {
			return nil, nil //nolint:nilnil // as documented
		}
		costs[x.ProxyID] = cents.Or(0)
	}
	return costs, nil
}

func (e *Evidence) answersOf(ctx context.Context, l *ledger.Ledger, b fact.Binding, o fact.Operation, proxyID string, amount int64) error {
	f := fact.OperationResolved{Ref: fact.Ref{OperationID: o.ID}, ProxyID: proxyID}
	none, err := l.WouldBook(ctx, f)
	if err != nil {
		return err
	}
	f.ChargedCents = amount
	charged, err := l.WouldBook(ctx, f)
	if err != nil {
		return err
	}
	say := "--charged " + fact.Decimal(amount)
	if amount == 0 { // 0 means that the cost is unknown
		say, charged = askAmount, nil
	}
	notCharged := "--not-charged"
	if len(e.Charged(proxyID)) > 0 {
		notCharged += " --against-evidence"
	}
	e.Answers = append(e.Answers,
		Answer{Say: say + e.orderFlag(o), ProxyID: proxyID, Bookings: charged},
		Answer{Say: notCharged, ProxyID: proxyID, Bookings: none})
	if !MayGoAgain(o) {
		e.Notes = append(e.Notes, "order "+o.OrderNo+" was charged: --send-again is refused unless its refund is booked")
		return nil
	}
	again := Answer{Say: notCharged + " --send-again", ProxyID: proxyID, Bookings: none}
	next, err := NextGeneration(ctx, l, b, o, fact.LinePending, fact.LineUnresolved)
	if refused := (*command.RefusedError)(nil); err != nil && !errors.As(err, &refused) {
		return err
	}
	if proxyID != "" {
		next.Planned = PlanLine(b, o, proxyID)
	}
	again.NewOperation, again.NewKey = next.Planned.OperationID, next.Planned.Key
	e.Answers = append(e.Answers, again)
	return nil
}

// Unread names provider data that could not be read. Without this data, a missing sign of a
// charge proves nothing. It returns "" if everything was read. If proxyID is not "", only that
// proxy counts.
func (e *Evidence) Unread(proxyID string) string {
	return e.unread(func(x ExpiryEvidence) bool { return x.open() && (proxyID == "" || x.ProxyID == proxyID) })
}

// ChargedSince is Charged and Unread for the lines of a review that was answered as not charged.
func (e *Evidence) ChargedSince() (shown []string, unread string) {
	of := func(x ExpiryEvidence) bool { return x.State == string(fact.LineNotCharged) }
	return e.charged(of), e.unread(of)
}

func (x ExpiryEvidence) open() bool {
	return x.State == string(fact.LinePending) || x.State == string(fact.LineUnresolved)
}

func (e *Evidence) unread(of func(ExpiryEvidence) bool) string {
	if e.Kind.MakesOrder() && e.OrderNo == "" && (e.FirstSentAt != nil || e.Ambiguous > 0) && !e.OrdersRead {
		return "the provider's orders could not all be read"
	}
	for _, x := range e.Expiries {
		if of(x) && !x.read {
			return "the expiry of " + x.ProxyID + " could not be read"
		}
	}
	return ""
}

// chargedMost limits how many items Charged lists; it counts the others.
const chargedMost = 3

// delivered reports whether the provider shows the operation's order as delivered by now.
func (e *Evidence) delivered() bool {
	return e.order != nil && e.order.Delivery.Complete && e.order.Delivery.Available
}

// Charged describes the evidence that the operation was charged: expiries that moved, its order if
// that is delivered, and orders that no other operation explains. If proxyID is not "", it considers
// only the expiry of that proxy.
func (e *Evidence) Charged(proxyID string) (shown []string) {
	return e.charged(func(x ExpiryEvidence) bool { return x.open() && (proxyID == "" || x.ProxyID == proxyID) })
}

func (e *Evidence) charged(of func(ExpiryEvidence) bool) (shown []string) {
	for _, x := range e.Expiries {
		if of(x) && x.Moved != nil && *x.Moved {
			shown = append(shown, fmt.Sprintf("%s expires %s and expired %s before", x.ProxyID, x.Now.UTC().Format(time.RFC3339), x.Before.UTC().Format(time.RFC3339)))
		}
	}
	if e.delivered() {
		shown = append(shown, fmt.Sprintf("order %s is delivered", e.OrderNo))
	}
	for _, x := range e.Orders {
		shown = append(shown, fmt.Sprintf("order %s was made %s and no other operation explains it", x.OrderNo, x.CreatedAt.UTC().Format(time.RFC3339)))
	}
	if more := len(shown) - chargedMost; more > 0 {
		shown = append(slices.Clip(shown[:chargedMost]), fmt.Sprintf("and %d more", more))
	}
	return shown
}

func (e *Evidence) orderFlag(o fact.Operation) string {
	if o.OrderNo != "" || len(e.Orders) != 1 {
		return ""
	}
	return " --order " + e.Orders[0].OrderNo
}

const endingsShown = 10

// sweptAnswers adds the possible answers about proxies that schedules have given up.
func (e *Evidence) sweptAnswers(ctx context.Context, l *ledger.Ledger) error {
	ids, err := l.Operations.SweepReviews(ctx, e.OperationID)
	if err != nil {
		return err
	}
	for _, id := range ids {
		ended, err := l.Operations.EndingsOf(ctx, id, endingsShown)
		if err != nil {
			return err
		}
		names := make([]string, 0, len(ended))
		for _, x := range ended {
			names = append(names, x.OperationID)
		}
		why := "was not renewed by " + strings.Join(names, ", ")
		if len(names) == 0 {
			why = "was renewed, and has expired all the same"
		}
		e.Notes = append(e.Notes, fmt.Sprintf("%s %s: --not-charged leaves it as it is, --not-charged --send-again lets the next run try again", id, why))
		for _, say := range []string{"--not-charged", "--not-charged --send-again"} {
			e.Answers = append(e.Answers, Answer{Say: say, ProxyID: id, Bookings: []ledger.Booking{}})
		}
	}
	return nil
}

// Generation is an operation that is planned again under a new key.
type Generation struct {
	Planned fact.Planned
	Days    int64
}

// NextGeneration plans an operation again under a new key. A renewal is planned for its
// lines in the given states; if there are none, the error is a RefusedError.
func NextGeneration(ctx context.Context, l *ledger.Ledger, b fact.Binding, o fact.Operation, states ...fact.LineState) (Generation, error) {
	accepted, err := l.Operations.Acceptance(ctx, o.CommandID)
	if err != nil {
		return Generation{}, err
	}
	var ids []string
	if o.Kind.OfProxies() {
		lines, err := l.Operations.Lines(ctx, o.ID)
		if err != nil {
			return Generation{}, err
		}
		for _, x := range lines {
			if slices.Contains(states, x.State) {
				ids = append(ids, x.ProxyID)
			}
		}
		if len(ids) == 0 {
			return Generation{}, command.Refuse("%s has no proxy left to renew", o.ID)
		}
	}
	return Generation{
		Planned: command.Plan(b, o.Kind, o.CommandID, o.Chunk, o.Generation+1, ids), Days: accepted.DurationDays,
	}, nil
}

// PlanLine plans one proxy of an operation again, as an operation of its own.
func PlanLine(b fact.Binding, o fact.Operation, proxyID string) fact.Planned {
	return command.Plan(b, o.Kind, o.CommandID, fact.LineChunk(o.Chunk, proxyID), o.Generation+1, []string{proxyID})
}

// MayGoAgain reports whether an operation may be sent again under a new key. An order with
// a number was charged, so it may be sent again only after it was fully refunded.
func MayGoAgain(o fact.Operation) bool {
	return o.OrderNo == "" || o.ChargedCents > 0 && o.RefundedCents == o.ChargedCents
}

// Outcomes of a verdict. The verdict does not answer the review; an operator does.
const (
	VerdictCharged = "charged" // signs of a charge for everything that is open
	VerdictPartly  = "partly"  // signs of a charge for a part
	VerdictNone    = "none"    // no sign of a charge, which does not prove that there was none
	VerdictUnknown = "unknown" // the evidence does not decide
)

// Verdict says what the evidence shows about the unresolved part of an operation.
type Verdict struct {
	Outcome       string     `json:"outcome" doc:"charged or partly: the provider shows signs of a charge; none: it shows no sign, which proves nothing; unknown: the evidence does not decide."`
	Text          string     `json:"text" doc:"The verdict in a sentence, for people."`
	ExpectedCents fact.Cents `json:"expected_cents" doc:"The expected cost of the unresolved part; null if unknown."`
	OrderNo       string     `json:"order_no,omitempty" doc:"The only order that the operation can have made."`
}

// judge returns the verdict on the unresolved part of the operation. expected is the expected
// cost of that part. It is 0 if the cost is unknown. charged is the amount that the provider
// reported as charged for unresolved lines.
func (e *Evidence) judge(o fact.Operation, expected, charged int64) *Verdict {
	v := &Verdict{Outcome: VerdictUnknown, ExpectedCents: fact.Estimated(expected)}
	switch {
	case !e.asked:
		v.Text = "Undecided: no runner answers, so the provider was not asked"
	case o.Kind.MakesOrder():
		v.judgeOrder(e, o)
	default:
		v.judgeExpiries(e.openExpiries(), e.Currency, charged)
	}
	switch {
	case v.Outcome == VerdictNone:
		v.Text += ". That does not prove that nothing was charged: ask the provider before you say so."
	case v.Outcome == VerdictUnknown:
		v.Text += "."
	case expected == 0:
		v.Text += "; what it cost is not known."
	default:
		v.Text += "; expected " + fact.Amount(expected, e.Currency) + "."
	}
	v.Text += e.walletText(charged)
	return v
}

// OthersSince returns what other operations booked as spent between WalletBefore and WalletNow, in
// cents. It returns 0 if one of the two is unknown.
func (e *Evidence) OthersSince() int64 {
	if e.WalletBefore == nil || e.WalletNow == nil {
		return 0
	}
	return e.WalletBefore.ProviderCents - e.WalletNow.LedgerCents - (e.ChargedCents - e.RefundedCents)
}

// Suspense returns the net amount that is booked as charged for lines with an unknown outcome.
func (e *Evidence) Suspense() (cents int64) {
	for _, l := range e.Lines {
		if l.State == fact.LineUnresolved {
			cents += l.ChargedCents - l.RefundedCents
		}
	}
	return cents
}

// ChargedByWallet returns the operation's cost according to the provider's wallet. It
// returns 0 if there is no sign of a charge or the wallet does not show the cost.
func (e *Evidence) ChargedByWallet() int64 {
	if e.WalletGap == nil || e.Verdict == nil || e.Verdict.Outcome != VerdictCharged {
		return 0
	}
	return max(*e.WalletGap, 0)
}

// walletText describes what the wallet shows about this operation. It returns "" if the wallet
// shows nothing about it. charged is the amount that the ledger has booked to suspense for the
// operation.
func (e *Evidence) walletText(charged int64) string {
	switch {
	case e.WalletGap == nil:
		return ""
	case *e.WalletGap == 0 && charged > 0:
		return fmt.Sprintf(" The provider's wallet agrees with the ledger, in which the %s are booked as charged.", fact.Amount(charged, e.Currency))
	case *e.WalletGap == 0:
		return " The provider's wallet agrees with the ledger without it."
	case *e.WalletGap < 0:
		return fmt.Sprintf(" The provider's wallet holds %s more than the ledger.", fact.Amount(-*e.WalletGap, e.Currency))
	}
	return fmt.Sprintf(" The provider's wallet holds %s less than the ledger, and nothing else is open.", fact.Amount(*e.WalletGap, e.Currency))
}

func (v *Verdict) judgeOrder(e *Evidence, o fact.Operation) {
	switch n := len(e.Orders); {
	case e.order != nil:
		v.judgeItsOrder(e, o.OrderNo)
	case o.OrderNo != "":
		v.Text = fmt.Sprintf("Undecided: the provider took it as order %s, and what became of that order is not known", o.OrderNo)
	case n == 1:
		v.Outcome, v.OrderNo = VerdictCharged, e.Orders[0].OrderNo
		v.Text = fmt.Sprintf("Likely charged: order %s was made at %s, and no other operation explains it", v.OrderNo, e.Orders[0].CreatedAt.UTC().Format("2006-01-02 15:04 UTC"))
	case n > 1:
		v.Text = fmt.Sprintf("Undecided: %d orders at the provider can be its own. Find the right one, and name it in the answer", n)
	case !e.OrdersRead:
		v.Text = "Undecided: the provider's orders could not all be read"
	default:
		v.Outcome, v.Text = VerdictNone, "No sign of a charge: the provider lists no order that this operation can have made"
	}
}

// judgeItsOrder judges an operation by what the provider shows now of its order.
func (v *Verdict) judgeItsOrder(e *Evidence, no string) {
	o, d, total, refunded := e.order, e.order.Delivery, "unknown", "none"
	if o.TotalCents != nil {
		total = fact.Amount(*o.TotalCents, fact.Bounded(o.Currency))
	}
	if cents := decide.RefundOf(*o); cents > 0 {
		refunded = fact.Amount(cents, fact.Bounded(o.Refund.Currency))
	}
	state := fmt.Sprintf("order %s (status %q now): total %s, refund %s, %d of %d delivered", no, fact.Bounded(o.Status), total, refunded, d.DeliveredCount, d.ExpectedCount)
	if v.Text = "Undecided: " + state; e.delivered() {
		v.Outcome, v.Text = VerdictCharged, "Likely charged: "+state
	}
}

func (v *Verdict) judgeExpiries(open []ExpiryEvidence, currency string, charged int64) {
	var moved, unread int
	var days []int
	for _, x := range open {
		switch {
		case x.Moved == nil:
			unread++
		case *x.Moved:
			moved++
			days = append(days, int((x.Now.Sub(*x.Before)+12*time.Hour)/(24*time.Hour)))
		}
	}
	slices.Sort(days)
	by := ""
	if days = slices.Compact(days); len(days) == 1 {
		by = " by " + english.Plural(days[0], "day", "")
	}
	all, none := fmt.Sprintf("all %d expiries", len(open)), "no expiry has moved"
	switch len(open) {
	case 1:
		all, none = "its expiry", "its expiry has not moved"
	case 2:
		all = "both expiries"
	}
	switch n := len(open); {
	case unread > 0:
		v.Text = fmt.Sprintf("Undecided: the expiries before and now are not both known for %d of %s", unread, english.Plural(n, "proxy", "proxies"))
	case moved == n:
		v.Outcome, v.Text = VerdictCharged, "Likely charged: "+all+" moved"+by
	case moved > 0:
		v.Outcome, v.Text = VerdictPartly, fmt.Sprintf("Likely charged in part: %d of %d expiries moved%s. Answer for each proxy separately", moved, n, by)
	case charged > 0:
		v.Text = fmt.Sprintf("Undecided: the provider said that it charged %s, but %s. It may still renew, or refund: ask it before you answer", fact.Amount(charged, currency), none)
	default:
		v.Outcome, v.Text = VerdictNone, "No sign of a charge: "+none
	}
}

func (e *Evidence) openExpiries() []ExpiryEvidence {
	return slices.DeleteFunc(slices.Clone(e.Expiries), func(x ExpiryEvidence) bool {
		return x.State != string(fact.LinePending) && x.State != string(fact.LineUnresolved)
	})
}
