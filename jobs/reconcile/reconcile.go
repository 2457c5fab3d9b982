package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/failpoint"
	"perennial/upstream"
)

// Finding is a difference between the books and the provider, or a renewal that did not
// extend the expiry by the paid days. Reconciliation reports a finding but corrects
// nothing.
type Finding struct {
	Kind        string `json:"kind" doc:"'kind' is the kind of finding. docs/operations.md explains each kind and what to do about it."`
	AmountCents int64  `json:"amount_cents" doc:"'amount_cents' is the provider's amount less the books' amount. For the wallet it is positive if the provider has more; for an order it is what the order cost."`
	OrderNo     string `json:"order_no" doc:"The provider's number of the order."`
	OperationID string `json:"operation_id" doc:"The id of the operation: the command's id and the part, such as restock-7/1."`
	ProxyID     string `json:"proxy_id,omitempty" doc:"The provider's id of the proxy."`
	Explanation string `json:"explanation" doc:"The difference, in words for people."`

	// Carried says that an earlier pass made the finding and this pass could not check it.
	Carried bool `json:"-"`
}

// Key identifies a finding, so that a persistent difference is published only once.
func (f Finding) Key() string {
	return strings.Join([]string{f.Kind, strconv.FormatInt(f.AmountCents, 10), f.OrderNo, f.OperationID, f.ProxyID}, "\x00")
}

// Reconciliation is the result of one comparison of the books with the provider.
type Reconciliation struct {
	OK       *bool       `json:"ok" doc:"'ok' says whether everything agreed. It is null if nothing differed but the wallet could not be compared: an open operation has an unknown cost without a limit, or the provider shows the wallet late."`
	Quiet    bool        `json:"quiet" doc:"'quiet' says that nothing was in progress when the wallet was read, so the wallet was compared to the cent, not with a range."`
	Findings []Finding   `json:"findings"`
	Currency string      `json:"currency,omitempty" doc:"The currency of the amounts."`
	At       time.Time   `json:"at" doc:"When this was read."`
	Wallet   WalletCheck `json:"wallet"`
	Orders   int         `json:"orders_compared" doc:"How many orders were compared."`
	Renewals int         `json:"renewals_compared" doc:"How many renewals were compared."`
	Compared Compared    `json:"compared" doc:"'compared' counts what was compared, by kind. If nothing was compared, 'ok' proves nothing."`
	Notes    []string    `json:"notes,omitempty" doc:"'notes' say what could not be compared, and why."`

	// Listed has the proxies of ended orders that no fact contains yet.
	Listed []fact.OrderListed `json:"-"`
}

// Compared counts what one pass compared, and what it left to the next pass.
type Compared struct {
	Orders   int  `json:"orders" doc:"Orders of this ledger, compared with a fresh read."`
	Renewals int  `json:"renewals" doc:"Renewals whose operation, transfers and lines were compared."`
	Expiries int  `json:"expiries" doc:"Renewed proxies whose expiry was checked to have moved by the paid days."`
	Outside  int  `json:"outside_orders" doc:"Orders made elsewhere that were read."`
	Wallet   bool `json:"wallet" doc:"Whether the wallet was compared with both a lower and an upper limit."`
	Left     int  `json:"left" doc:"Orders and expiries that were not compared, because no requests were left."`
}

// Agrees reports whether everything was compared and agreed.
func (x Reconciliation) Agrees() bool { return x.OK != nil && *x.OK }

// DifferenceCents returns by how much the wallet is outside the range that the books allow. It is
// negative if the wallet has less.
func (x Reconciliation) DifferenceCents() int64 {
	for _, f := range x.Findings {
		if f.Kind == decide.FindingWallet {
			return f.AmountCents
		}
	}
	return 0
}

// Statements is the part of the customer API that a reconciliation reads.
type Statements interface {
	Wallet(ctx context.Context) (upstream.Wallet, error)
	Order(ctx context.Context, orderNo string) (upstream.Order, error)
	Proxy(ctx context.Context, proxyID string) (upstream.Proxy, error)
	OrdersPage(ctx context.Context, r upstream.PageRequest) (upstream.Page[upstream.OrderSummary], error)
	OffersPage(ctx context.Context, f upstream.OfferFilter, r upstream.PageRequest) (upstream.Page[upstream.Offer], error)
}

// ReconcilerConfig configures a Reconciler. Fields without a stated default are required.
type ReconcilerConfig struct {
	Account    string
	Ledger     *ledger.Ledger
	Statements Statements
	Binding    fact.Binding
	Clock      func() time.Time
	// Pass, if not nil, is called before each request and waits for the account's rate limit.
	Pass func(ctx context.Context) error
	// Heard, if not nil, is called with the result of each request.
	Heard func(ctx context.Context, server time.Time, err error)
	// Reads limits the order details, proxies and pages that one pass reads. Default 200.
	Reads int
}

// Reconciler compares a ledger with the provider. It remembers which older orders were
// compared, so use one per account. It is not safe for concurrent use.
type Reconciler struct {
	ReconcilerConfig

	loaded      bool
	ChangedSeq  int64                   // facts up to this sequence were compared
	orderCursor string                  // last order that the turn through all orders compared
	stickyTurn  string                  // last order of Sticky that was read
	foreignTurn string                  // last order of Foreign that was read
	renewals    string                  // last renewal that the turn through all renewals checked
	Sticky      map[string]bool         // orders to compare in every pass
	Known       map[string][]Finding    // by order, or by operation and proxy: the differences at the last read
	settledAt   map[string]time.Time    // settlement times of the renewals whose expiries are still to be checked, by operation
	list        listing                 // position in the provider's list of orders
	Foreign     map[string]ForeignOrder // orders that the ledger does not have
	prices      map[int64]listPrices    // by number of days
	missing     *Finding                // the wallet's shortfall when it was last compared with a lower bound
}

// NewReconciler returns a Reconciler.
func NewReconciler(c ReconcilerConfig) *Reconciler {
	if c.Pass == nil {
		c.Pass = func(context.Context) error { return nil }
	}
	if c.Heard == nil {
		c.Heard = func(context.Context, time.Time, error) {}
	}
	if c.Reads <= 0 {
		c.Reads = 200
	}
	return &Reconciler{
		ReconcilerConfig: c, Sticky: map[string]bool{}, Known: map[string][]Finding{}, settledAt: map[string]time.Time{}, Foreign: map[string]ForeignOrder{}, prices: map[int64]listPrices{},
	}
}

// Pass is one reconciliation in progress.
type Pass struct {
	*Reconciler
	Reconciliation
	Left  int             // requests that the current step may still make
	added map[string]bool // renewals whose sums this pass has checked
	Fresh map[string]bool // unknown orders that this pass read
	whole bool            // the end of the order list was reached
}

// recently is how far back the first pass reads operations that changed.
const recently = 24 * time.Hour

// Reconcile compares orders, renewals and the wallet. The wallet is compared last, because orders
// may explain its difference. readWallet may wait for a good time to read the wallet. If it is
// nil, ReadWallet is used. If the provider or the ledger returns an error, the comparison is
// incomplete.
func (c *Reconciler) Reconcile(ctx context.Context, readWallet func(context.Context) (WalletReading, error)) (Reconciliation, error) {
	if readWallet == nil {
		readWallet = c.ReadWallet
	}
	p := &Pass{Reconciler: c, added: map[string]bool{}, Fresh: map[string]bool{}, Reconciliation: Reconciliation{Findings: []Finding{}, Currency: c.Binding.Currency}}
	if err := c.Load(ctx); err != nil {
		return p.Reconciliation, err
	}
	for _, step := range []func(context.Context) error{p.changed, p.someRenewals, p.Outside, p.someOrders, p.expiries, p.outsideRenewals} {
		if err := step(ctx); err != nil {
			return p.Reconciliation, err
		}
	}
	failpoint.Reached(ctx, "reconciliation.read")
	reading, err := readWallet(ctx)
	if err != nil {
		return p.Reconciliation, fmt.Errorf("read the wallet: %w", err)
	}
	if err := p.bound(ctx, &reading); err != nil {
		return p.Reconciliation, err
	}
	p.wallet(reading)
	if err := errors.Join(p.suspectAnswers(ctx), p.suspectRefunds(ctx)); err != nil {
		return p.Reconciliation, err
	}
	if p.Wallet.LowCents != nil && !p.Wallet.Late || len(p.Findings) > 0 {
		p.OK = new(len(p.Findings) == 0)
	}
	p.At = c.Clock().UTC()
	p.Compared.Orders, p.Compared.Renewals, p.Compared.Wallet = p.Orders, p.Renewals, p.Wallet.LowCents != nil && !p.Wallet.Late
	return p.Reconciliation, nil
}

// Load loads the findings of an earlier run that no operator has explained since. A second
// call does nothing.
func (c *Reconciler) Load(ctx context.Context) error {
	if c.loaded {
		return nil
	}
	told, agreed, err := c.Ledger.Money.PublishedDiscrepancies(ctx)
	if err != nil {
		return err
	}
	// Operations that settled since the last agreement may not have been compared, because
	// the runner may have been stopped for days.
	since := c.Clock().Add(-recently)
	if agreed != nil && agreed.At.Add(-time.Hour).Before(since) {
		since = agreed.At.Add(-time.Hour)
	}
	if c.ChangedSeq, err = c.Ledger.SeqAt(ctx, since); err != nil {
		return err
	}
	for _, f := range told {
		was := Finding{Kind: f.Finding, AmountCents: f.AmountCents, OrderNo: f.OrderNo, OperationID: f.OperationID, ProxyID: f.ProxyID, Explanation: f.Explanation}
		switch {
		case f.Finding == decide.FindingWallet && f.AmountCents < 0 && c.missing == nil: // the findings are ordered newest first
			c.missing = &was
		case f.Finding == decide.FindingNotMoved:
			c.settledAt[f.OperationID] = time.Time{}
			c.Known[f.OperationID+" "+f.ProxyID] = []Finding{was}
		case f.OrderNo != "" && f.Finding != decide.FindingOutside && f.Finding != decide.FindingLate && f.Finding != decide.FindingShort:
			c.Sticky[f.OrderNo] = true
			c.Known[f.OrderNo] = append(c.Known[f.OrderNo], was)
		}
	}
	c.loaded = true
	return nil
}

func (p *Pass) find(f Finding) { p.Findings = append(p.Findings, f) }

// This pass could not read the subject of a key again, so the findings of the last read are
// repeated. what names the subject in the note.
func (p *Pass) still(key, what string) {
	p.notef("%s was left to the next pass", what)
	p.Compared.Left++
	p.Findings = append(p.Findings, p.Known[key]...)
}

func (p *Pass) notef(format string, args ...any) {
	p.Notes = append(p.Notes, fmt.Sprintf(format, args...))
}

// Adds a quarter of the pass's requests to Left. Each step calls it, so no step can use up the
// share of a later step.
func (p *Pass) grant() { p.Left += max(1, p.Reads/4) }

// inTurn returns the keys of a set in order, starting after last, the last key of the
// previous turn.
func inTurn[T any](set map[string]T, last string) []string {
	all := slices.Sorted(maps.Keys(set))
	at, found := slices.BinarySearch(all, last)
	if found {
		at++
	}
	return slices.Concat(all[at:], all[:at])
}

// May takes one of the step's requests. It returns false if none is left.
func (p *Pass) May() bool {
	if p.Left <= 0 {
		return false
	}
	p.Left--
	return true
}

// unreadable reports whether the read failed because the key lacks the scope. If so, it
// adds a note, and the pass continues.
func (p *Pass) unreadable(err error, what string) bool {
	if !errors.Is(err, upstream.CodeInsufficientScope) {
		return false
	}
	p.notef("%s could not be compared: the key may not read them (insufficient_scope)", what)
	return true
}

// aboutOne reports whether a failed read concerns only one order: no request can contain
// its number, or the reply's code or data is about that order. An error that may concern
// the whole account ends the pass.
func aboutOne(err error) bool {
	var answered *upstream.Error
	return errors.Is(err, upstream.ErrBadID) || errors.As(err, &answered) && decide.OfOneOrder(answered.Code)
}

// Fetch makes one request within the rate limit. It calls Heard with the error of the request,
// which is nil after a success.
func Fetch[T any](ctx context.Context, c *Reconciler, do func(context.Context) (T, error)) (T, error) {
	var none T
	if err := c.Pass(ctx); err != nil {
		return none, err
	}
	out, err := do(ctx)
	c.Heard(ctx, time.Time{}, err)
	return out, err
}
