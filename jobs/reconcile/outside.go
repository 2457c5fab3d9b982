package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/upstream"
)

// listing is the position in the provider's list of orders. If a pass cannot read all
// pages, the next pass continues there.
type listing = upstream.Pages[upstream.OrderSummary]

// Outside lists the orders, and reads and reports those that the ledger does not have. It uses
// only the order numbers from the list, because the API document does not list the fields of an
// entry.
func (p *Pass) Outside(ctx context.Context) error {
	if err := p.listed(ctx); err != nil {
		return p.orderError(err)
	}
	if len(p.Foreign) == 0 {
		return nil
	}
	opened, err := p.Ledger.Money.OpenedAt(ctx)
	if err != nil {
		return err
	}
	p.grant()
	for _, unread := range []bool{true, false} { // each order is read once before any order is read again
		for _, no := range inTurn(p.Foreign, p.foreignTurn) {
			if p.Foreign[no].Read == unread || p.Fresh[no] {
				continue
			}
			if p.Left <= 0 {
				if unread {
					p.Compared.Left++
				}
				continue
			}
			if err := p.readForeign(ctx, no, opened); err != nil {
				return p.orderError(err)
			}
		}
	}
	return p.judgeForeign(ctx)
}

func (p *Pass) listed(ctx context.Context) error {
	p.grant()
	p.list.Size = ListingPage
	for p.May() {
		page, err := Fetch(ctx, p.Reconciler, func(ctx context.Context) (upstream.Page[upstream.OrderSummary], error) {
			return p.Statements.OrdersPage(ctx, p.list.PageRequest)
		})
		if p.list.Restarts(err) {
			continue
		}
		if err != nil {
			err = fmt.Errorf("list the orders: %w", err)
		} else {
			err = p.unknown(ctx, numbers(page))
		}
		more := false
		if err == nil {
			more, err = p.list.Follow(page)
		}
		looped := errors.Is(err, upstream.ErrPageLoop)
		if looped {
			p.notef("the list of orders was read in part: %v", err)
			err = nil
		}
		if !more && (err == nil || upstream.RestartsList(err)) {
			p.list = listing{}
		}
		if !more {
			p.whole = err == nil && !looped
			return err
		}
	}
	p.notef("the next pass continues the list of orders")
	return nil
}

// Returns the order numbers on a page. It includes summaries that cannot be read, because the
// details of each order are read separately.
func numbers(page upstream.Page[upstream.OrderSummary]) (all []string) {
	for _, o := range page.Items {
		all = append(all, o.OrderNo)
	}
	for _, u := range page.Unusable {
		if u.ID != "" {
			all = append(all, u.ID)
		}
	}
	return all
}

func (p *Pass) unknown(ctx context.Context, orders []string) error {
	for _, no := range orders {
		if _, ok := p.Foreign[no]; ok {
			continue
		}
		_, err := p.Ledger.Money.OrderOperation(ctx, no)
		if errors.Is(err, ledger.ErrNotFound) {
			p.Foreign[no] = ForeignOrder{}
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readForeign reads the details of an unknown order. The order is read again in later
// passes, because it may be refunded. An order older than the ledger is read only once.
func (p *Pass) readForeign(ctx context.Context, no string, opened time.Time) error {
	if p.Foreign[no].Before {
		return nil
	}
	if _, err := p.Ledger.Money.OrderOperation(ctx, no); !errors.Is(err, ledger.ErrNotFound) {
		delete(p.Foreign, no) // the reply to the operation that made it has arrived
		return err
	}
	if !p.May() {
		p.notef("order %s was left to the next pass", no)
		return nil
	}
	o, err := Fetch(ctx, p.Reconciler, func(ctx context.Context) (upstream.Order, error) { return p.Statements.Order(ctx, no) })
	if errors.Is(err, upstream.CodeOrderNotFound) {
		delete(p.Foreign, no)
		return nil
	}
	if aboutOne(err) {
		p.foreignTurn = no
		p.Compared.Left++
		p.notef("order %s could not be read: %v", no, err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("read order %s: %w", no, err)
	}
	p.foreignTurn, p.Fresh[no] = no, true
	p.Compared.Outside++
	x := ForeignOf(o)
	// The API's instants may be truncated to seconds.
	x.Before = !o.CreatedAt.IsZero() && o.CreatedAt.Before(opened.Truncate(time.Second))
	p.Foreign[no] = x
	return nil
}

// judgeForeign reports the unknown orders that were read. It leaves out orders that are older
// than the ledger, orders that are recorded, and orders that an answer or a reply in progress
// explains.
func (p *Pass) judgeForeign(ctx context.Context) error {
	recorded, err := p.Ledger.Money.RecordedFor(ctx)
	if err != nil {
		return err
	}
	ours, err := p.makers(ctx)
	if err != nil {
		return err
	}
	if err := p.nameAnswered(ctx, ours, recorded); err != nil {
		return err
	}
	for _, no := range slices.Sorted(maps.Keys(p.Foreign)) {
		x := p.Foreign[no]
		if sum, known := recorded[no]; !x.Read || x.Before || x.NetCents == fact.Known(sum) || known && !x.NetCents.Known() {
			continue
		}
		if _, err := p.Ledger.Money.OrderOperation(ctx, no); !errors.Is(err, ledger.ErrNotFound) {
			if err != nil {
				return err
			}
			delete(p.Foreign, no)
			continue
		}
		var maker attribution
		maker, ours = attribute(x, ours)
		if maker.settled {
			continue
		}
		denied, err := p.denied(ctx, x)
		if err != nil {
			return err
		}
		p.foreignFinding(no, x, recorded[no], maker, denied)
	}
	return nil
}

// denied returns the ids of operations that may have made an unknown order, although an
// operator answered that nothing was charged.
func (p *Pass) denied(ctx context.Context, x ForeignOrder) (ids []string, err error) {
	operations, err := p.Ledger.Money.OrdersNotCharged(ctx)
	for _, o := range operations {
		m, err := MakerOf(ctx, p.Ledger, o)
		if err != nil {
			return nil, err
		}
		if m.CannotHaveMade(x) == "" {
			ids = append(ids, o.ID)
		}
	}
	return ids, err
}

func (p *Pass) makers(ctx context.Context) ([]Maker, error) {
	operations, err := p.Ledger.Money.OrdersWithoutNumber(ctx)
	ours := make([]Maker, len(operations))
	for i, o := range operations {
		if ours[i], err = MakerOf(ctx, p.Ledger, o); err != nil {
			return nil, err
		}
	}
	return ours, err
}

type attribution struct {
	settled bool     // a reply in progress will show the order's number, or an operator's answer explains it
	reviews []string // operations in review that may have made the order
}

// attribute finds the operation that an unknown order may belong to. An operator's answer
// explains only one order. If the answer for an operation explains this order, the returned list
// lacks the operation.
func attribute(x ForeignOrder, ours []Maker) (attribution, []Maker) {
	var a attribution
	for i, o := range ours {
		if o.MaybeSentAt() == nil || o.CannotHaveMade(x) != "" {
			continue
		}
		switch o.State {
		case fact.StateReview:
			a.reviews = append(a.reviews, o.ID)
		case fact.StateResolved:
			if o.explains(x) {
				return attribution{settled: true}, slices.Delete(slices.Clone(ours), i, i+1)
			}
		case fact.StateAccepted, fact.StateHeld, fact.StateSending, fact.StateWaiting, fact.StateOpen, fact.StateDelivered,
			fact.StateRefunded, fact.StateCompleted, fact.StatePartial, fact.StateFailed, fact.StateRejected: // only operations in progress get here: their reply will show the order's number
			a.settled = true
		}
	}
	return a, ours
}

// nameAnswered finds the order of an operation that an operator answered without an order
// number, so that the order's proxies get the command's labels. It does so only if all
// orders were read, and the order and the operation match only each other.
func (p *Pass) nameAnswered(ctx context.Context, ours []Maker, recorded map[string]int64) error {
	fits := p.fits(ours, recorded)
	for _, o := range ours {
		if o.State != fact.StateResolved || len(fits[o.ID]) != 1 || len(fits[fits[o.ID][0]]) != 1 || !p.May() {
			continue
		}
		o.OrderNo = fits[o.ID][0]
		detail, err := Fetch(ctx, p.Reconciler, func(ctx context.Context) (upstream.Order, error) { return p.Statements.Order(ctx, o.OrderNo) })
		if aboutOne(err) {
			continue // the next pass tries again
		}
		if err == nil {
			err = p.nameProxies(ctx, o.Operation, detail)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Maps each operation to the unknown orders that it can have made, and each order to the
// operations that can have made it. It returns nil unless all orders were read.
func (p *Pass) fits(ours []Maker, recorded map[string]int64) map[string][]string {
	fits := map[string][]string{}
	for no, x := range p.Foreign {
		if !p.whole || !x.Read {
			return nil
		}
		if x.Before || recorded[no] != 0 {
			continue
		}
		for _, o := range ours {
			if o.CannotHaveMade(x) == "" && (o.State != fact.StateResolved || o.explains(x)) {
				fits[o.ID], fits[no] = append(fits[o.ID], no), append(fits[no], o.ID)
			}
		}
	}
	return fits
}

func (p *Pass) foreignFinding(no string, x ForeignOrder, recorded int64, maker attribution, denied []string) {
	net := x.NetCents.Or(0)
	f := Finding{Kind: decide.FindingOutside, AmountCents: net - recorded, OrderNo: no, Explanation: fmt.Sprintf(
		"the provider has this order, created %s, and the ledger does not know it: it cost %s net", Stamp(x.CreatedAt), p.Binding.Amount(net))}
	if !x.NetCents.Known() {
		f.Explanation = fmt.Sprintf("the provider has this order, created %s, and the ledger does not know it: the provider shows no total of it yet", Stamp(x.CreatedAt))
	}
	if recorded != 0 {
		f.Explanation += fmt.Sprintf(", of which %s is recorded", p.Binding.Amount(recorded))
	}
	if len(maker.reviews) == 1 {
		f.OperationID = maker.reviews[0]
	}
	if len(maker.reviews) > 0 {
		f.Explanation += "; it may be of " + strings.Join(FirstFew(maker.reviews), ", ") + ", in review: resolve that first"
	} else if x.NetCents.Known() {
		for _, id := range denied[:min(len(denied), few)] {
			f.Explanation += fmt.Sprintf("; if it is of %s, which was answered as not charged: `perennial reviews correct %s --charge %[3]s --confirm-amount %[3]s --reason TEXT`", id, id, fact.Decimal(f.AmountCents))
		}
		kind, cents := "external", f.AmountCents
		if cents < 0 { // more is recorded than the order cost
			kind, cents = "top-up", -cents
		}
		f.Explanation += fmt.Sprintf("; if it was bought at the provider's own site: `perennial ledger record --kind %s --cents %d --order %s --reason TEXT`", kind, cents, no)
	}
	p.find(f)
}

// ListingPage is the requested page size. The client requests smaller pages if the provider
// refuses this size.
const ListingPage = 200

// Maker is an order operation of this ledger without an order number, with the items of its
// command.
type Maker struct {
	fact.Operation

	Items []command.Item // nil if they are no longer known
}

// MakerOf returns an operation with its command's items. If the acceptance is archived or
// missing, Items is nil.
func MakerOf(ctx context.Context, l *ledger.Ledger, o fact.Operation) (Maker, error) {
	accepted, err := l.Operations.Acceptance(ctx, o.CommandID)
	if _, archived := errors.AsType[*ledger.ArchivedError](err); archived || errors.Is(err, ledger.ErrNotFound) {
		return Maker{Operation: o}, nil
	}
	if err != nil {
		return Maker{Operation: o}, err
	}
	c, err := command.ReadContent(accepted.Content)
	return Maker{o, c.Items}, err
}

// CannotHaveMade returns why the operation cannot have made an order. It returns "" if the
// operation may have made it.
func (m Maker) CannotHaveMade(x ForeignOrder) string {
	switch sent := m.MaybeSentAt(); {
	case sent != nil && !x.CreatedAt.IsZero() && x.CreatedAt.Before(sent.Add(-upstream.MaxSkew)):
		return fmt.Sprintf("it was created %s, and %s was first sent %s", Stamp(x.CreatedAt), m.ID, Stamp(*sent))
	case m.Items == nil:
		return ""
	}
	asked, proxies := map[string]int64{}, int64(0)
	for _, i := range m.Items {
		asked[i.OfferCode] += i.Quantity
		proxies += i.Quantity
	}
	shown := map[string]int64{}
	for _, i := range x.Items {
		shown[i.OfferCode] += i.Quantity
	}
	switch {
	case len(shown) > 0 && !maps.Equal(asked, shown):
		return fmt.Sprintf("it is of %s, and %s asked for %s", quantities(shown), m.ID, quantities(asked))
	case x.Expected > 0 && x.Expected != proxies:
		return fmt.Sprintf("it is of %d proxies, and %s asked for %d", x.Expected, m.ID, proxies)
	}
	return ""
}

// Reports whether an operator's answer for the operation can be about this order. The order must
// have cost the amount in the answer, and must be older than the answer.
func (m Maker) explains(x ForeignOrder) bool {
	return fact.Known(m.ChargedCents-m.RefundedCents) == x.NetCents && x.CreatedAt.Before(m.UpdatedAt.Add(upstream.MaxSkew))
}

func quantities(of map[string]int64) string {
	all := make([]string, 0, len(of))
	for _, offer := range slices.Sorted(maps.Keys(of)) {
		all = append(all, fmt.Sprintf("%d × %s", of[offer], fact.Bounded(offer)))
	}
	return strings.Join(FirstFew(all), ", ")
}

// ForeignOf returns the data of an order's details that CannotHaveMade and the findings
// use.
func ForeignOf(o upstream.Order) ForeignOrder {
	x := ForeignOrder{CreatedAt: o.CreatedAt, Read: true, Items: o.Items}
	if o.TotalCents != nil {
		x.NetCents = fact.Known(*o.TotalCents - decide.RefundOf(o))
	}
	if o.Delivery.Present && o.Refund == nil { // a refunded proxy may no longer be counted as expected
		x.Expected = o.Delivery.ExpectedCount
	}
	return x
}

// ForeignOrder is an order in the provider's list that the ledger does not have.
type ForeignOrder struct {
	CreatedAt time.Time
	NetCents  fact.Cents // total less refund; unknown while the provider shows no total
	Items     []upstream.OrderItem
	Expected  int64 // number of proxies; 0 if unknown
	Before    bool  // older than the ledger, so its cost is in the opening balance
	Read      bool
}

// Stamp formats an instant for an explanation.
func Stamp(at time.Time) string {
	if at.IsZero() {
		return "at a time that is not given"
	}
	return at.UTC().Format(time.RFC3339)
}

const few = 8

// FirstFew shortens a list of ids for an explanation.
func FirstFew(ids []string) []string {
	if len(ids) <= few {
		return ids
	}
	return append(slices.Clone(ids[:few]), fmt.Sprintf("and %d more", len(ids)-few))
}
