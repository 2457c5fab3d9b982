package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/jobs/inspect"
	"perennial/jobs/reconcile"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/sleep"
	"perennial/ledger/tables"
)

// books compares the ledger with the provider. It runs one comparison (pass) at a time and
// keeps the last result.
type books struct {
	*Config
	clock   *clock
	pauses  *pauses
	link    *link
	binding func() fact.Binding
	wake    func() // called when something may be due again

	turn       chan struct{} // contains a token during a pass
	answered   chan struct{} // signals an operator's answer to a review
	reconciler *reconcile.Reconciler
	published  map[string]bool // published findings that still apply; nil before the first pass
	uncompared bool            // a fact says that the wallet could not be compared
	attended   atomic.Bool     // an operator requested the current pass, so it may use the whole rate
	suspect    string          // the direction of the wallet's unconfirmed difference in the last pass; "" for none

	mu    sync.Mutex
	last  LastReconciliation
	moved time.Time // when a pass last ended, or was refused because of a pause
}

// LastReconciliation is the result of the last pass, or the reason why it failed.
type LastReconciliation struct {
	At              time.Time `json:"at,omitzero" doc:"When the last reconciliation ended."`
	OK              *bool     `json:"ok" doc:"Whether everything agreed; null if the wallet could not be compared."`
	Quiet           bool      `json:"quiet" doc:"Whether nothing was in progress when the wallet was read."`
	Findings        int       `json:"findings" doc:"How many differences there were."`
	DifferenceCents *int64    `json:"difference_cents" doc:"The difference of the wallet; null if 'ok' is null."`
	ProviderCents   *int64    `json:"provider_cents" doc:"The balance of the provider's wallet; null before the first reconciliation."`
	Failed          string    `json:"failed,omitempty" doc:"'failed' says why the latest reconciliation did not finish, \"\" if it did."`

	unsure bool // the wallet differs or may be late, so another pass must confirm the result
}

// Agrees reports whether everything was compared and agreed.
func (x LastReconciliation) Agrees() bool { return x.OK != nil && *x.OK }

// LastReconciliation returns the last result. At is zero until the first pass of this run
// has ended.
func (b *books) LastReconciliation() LastReconciliation {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

// Unreconciled returns a message with the reason if no pass has finished for too long:
// unreconciledAfter intervals, or unreconciledLeast if that is longer. Otherwise it returns
// "". A pass that is refused because of a pause counts as finished.
func (b *books) Unreconciled() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	moved := b.moved
	if moved.IsZero() || b.Clock().Sub(moved) <= max(unreconciledAfter*b.ReconcileEvery, unreconciledLeast) {
		return ""
	}
	why := b.last.Failed
	if why == "" {
		why = "a pass does not come to its end"
	}
	return fmt.Sprintf("the books have not been compared with the provider since %s (`perennial ledger reconcile`): %s", moved.UTC().Format(time.RFC3339), why)
}

// Intervals of scheduled reconciliations.
const (
	reconcileFirst = time.Minute     // after the start; short, so that a runner that restarts often also reconciles
	reconcileAgain = 5 * time.Minute // after a failed pass

	reconcileAnswer = reconcile.MovesWithin + time.Minute // after an operator's answer

	unreconciledAfter = 3                // intervals
	unreconciledLeast = 30 * time.Minute // long enough for a pass at a low rate
)

// keepReconciling reconciles on schedule until ctx ends. A failed pass is logged and
// retried.
func (b *books) keepReconciling(ctx context.Context) error {
	if b.ReconcileEvery <= 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	b.move(b.Clock())
	return passes(ctx, b.Clock, min(b.ReconcileEvery, reconcileFirst), b.answered, func() (wait time.Duration) {
		_, err := b.reconcile(ctx, b.scheduledReading, afterTwoPasses)
		if err != nil && ctx.Err() == nil {
			b.Log.WithError(err).Warn("the books could not be compared with the provider; it is tried again")
		}
		if err != nil || b.LastReconciliation().unsure {
			return min(b.ReconcileEvery, reconcileAgain)
		}
		return b.ReconcileEvery
	})
}

// The function pass is called after the first wait, and again after each wait that it returns. If
// answered delivers a value, the function is also called after the time reconcileAnswer.
func passes(ctx context.Context, now func() time.Time, wait time.Duration, answered <-chan struct{}, pass func() time.Duration) error {
	var check time.Time // when to compare the last answer; zero if it is compared
	for next := now().Add(wait); ; {
		due := next
		if !check.IsZero() && check.Before(due) {
			due = check
		}
		woken, err := sleep.UntilOr(ctx, now, due, answered)
		switch {
		case err != nil:
			return err
		case woken:
			check = now().Add(reconcileAnswer)
			continue
		case !now().Before(check):
			check = time.Time{}
		}
		next = now().Add(pass())
	}
}

// CompareAnswer makes a pass compare an operator's answer, or its correction, as soon as the
// provider must show its effect. Otherwise a proxy that was paid for but not renewed would be
// reported up to ReconcileEvery later.
func (b *books) CompareAnswer() {
	select {
	case b.answered <- struct{}{}:
	default:
	}
}

// Reconcile compares the books with the provider now. It blocks new requests that charge and
// waits up to SettleTimeout for requests in progress, so that the wallet can be read exactly. The
// pass may use the whole rate of reads; orders and renewals still go first.
//
// A finding is published once; agreement is published each time. Reconcile publishes a difference
// of the wallet immediately. Scheduled passes publish it only if two of them have found it,
// because a provider may show the wallet late. While the account is paused, the error is a
// RefusedError. Any other error is from the provider.
func (b *books) Reconcile(ctx context.Context) (reconcile.Reconciliation, error) {
	return b.reconcile(ctx, b.exactReading, atOnce)
}

type publication int

const (
	afterTwoPasses publication = iota // scheduled passes: a provider may show the wallet late
	atOnce                            // requested passes, which read the wallet exactly
)

func (b *books) move(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.moved = now
}

func (b *books) reconcile(ctx context.Context, reading func(context.Context) (reconcile.WalletReading, error), when publication) (reconcile.Reconciliation, error) {
	select {
	case b.turn <- struct{}{}:
	case <-ctx.Done():
		return reconcile.Reconciliation{}, ctx.Err()
	}
	defer func() { <-b.turn }()
	b.attended.Store(when == atOnce)
	defer b.attended.Store(false)
	if b.reconciler == nil {
		b.reconciler = b.newReconciler()
	}
	x, err := b.reconciler.Reconcile(ctx, reading)
	if err == nil {
		err = errors.Join(b.publish(ctx, x, when), b.nameProxies(ctx, x.Listed))
	}
	if _, refused := errors.AsType[*command.RefusedError](err); (err == nil || refused) && b.ReconcileEvery > 0 {
		b.move(b.Clock())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.last.Failed = fact.Bounded(err.Error())
		return x, err
	}
	b.last = LastReconciliation{At: x.At, OK: x.OK, Quiet: x.Quiet, Findings: len(x.Findings), ProviderCents: &x.Wallet.ProviderCents, unsure: b.suspect != "" || x.Wallet.Late}
	if x.OK != nil {
		b.last.DifferenceCents = new(x.DifferenceCents())
	}
	return x, nil
}

func (b *books) newReconciler() *reconcile.Reconciler {
	return reconcile.NewReconciler(reconcile.ReconcilerConfig{
		Account: b.Account, Ledger: b.Ledger, Statements: b.Provider, Binding: b.binding(), Clock: b.clock.Now, Heard: b.link.Read,
		Pass: func(ctx context.Context) error {
			if err := b.readable(); err != nil {
				return err
			}
			if b.attended.Load() {
				return b.link.passRead(ctx)
			}
			return b.link.PassListing(ctx)
		},
		Reads: b.readsOfAPass(),
	})
}

// readsOfAPass returns how many reads a pass may make. Within fixed bounds, it is the number of
// reads that fit into half of the interval if they use readShare of the rate.
func (b *books) readsOfAPass() int {
	const least, most = 60, 2000
	if b.ReconcileEvery <= 0 {
		return least
	}
	return max(least, min(most, int(b.RatePerSecond*readShare*b.ReconcileEvery.Seconds()/2)))
}

// readable returns a RefusedError while the account is paused. The pause after a restore
// allows reads, because an operator needs them to decide.
func (b *books) readable() error {
	if _, blocked := b.pauses.untilBut(lanePoll, ledger.CauseRestored); !blocked {
		return nil
	}
	return command.Refuse("the account is paused, so the provider is not asked: see `perennial accounts show`")
}

func (b *books) scheduledReading(ctx context.Context) (reconcile.WalletReading, error) {
	return b.reconciler.ReadWallet(ctx)
}

// exactTries limits the wallet reads after closeGate. An intent that was checked just
// before closeGate may be committed during the first read, so the read is repeated.
const exactTries = 3

// exactReading blocks new requests that charge, waits for requests in progress, and reads
// the wallet. An operation whose outcome stays unknown widens the range of accepted
// balances.
func (b *books) exactReading(ctx context.Context) (w reconcile.WalletReading, err error) {
	b.pauses.closeGate()
	defer func() {
		b.pauses.openGate()
		b.wake()
	}()
	settle, cancel := context.WithTimeout(ctx, b.SettleTimeout)
	defer cancel()
	for range exactTries {
		if err := b.untilSettled(settle); err != nil {
			return w, err
		}
		if w, err = b.reconciler.ReadWallet(ctx); err != nil || !w.Moved {
			return w, err
		}
	}
	return w, nil
}

// untilSettled waits until no operation in progress will end automatically. It also returns
// nil if ctx ends first.
func (b *books) untilSettled(ctx context.Context) error {
	for {
		p, err := b.Ledger.Money.Position(context.WithoutCancel(ctx), b.Account)
		if err != nil || !moving(p.Open) {
			return err
		}
		select {
		case <-b.Ledger.Changed(p.Head.Seq):
		case <-ctx.Done():
			return nil
		}
	}
}

// moving reports whether an open operation will end automatically, because its request
// awaits a reply or its order's charge is not booked. An operation that waits for a retry
// does not end while the gate is closed.
func moving(open []tables.Exposure) bool {
	for _, x := range open {
		if x.State == fact.StateSending || (x.State == fact.StateOpen && x.Charge != fact.Known(0)) {
			return true
		}
	}
	return false
}

func (b *books) publish(ctx context.Context, x reconcile.Reconciliation, when publication) error {
	if err := b.recallPublished(ctx); err != nil {
		return err
	}
	facts, now, suspect := []fact.Fact{}, map[string]bool{}, ""
	if x.Wallet.Late { // a wallet that may be late does not end findings about the wallet
		maps.Copy(now, b.published)
		maps.DeleteFunc(now, func(key string, _ bool) bool { return !strings.HasPrefix(key, decide.FindingWallet+"\x00") })
	}
	for _, f := range x.Findings {
		if f.Kind == decide.FindingWallet && !b.published[f.Key()] && (f.Carried || when == afterTwoPasses && b.suspect != side(f)) {
			suspect = side(f)
			continue
		}
		if now[f.Key()] = true; !b.published[f.Key()] {
			facts = append(facts, b.discrepancy(ctx, f))
		}
	}
	if x.Agrees() {
		facts = append(facts, fact.LedgerReconciled{WalletCents: x.Wallet.BookCents, ProviderCents: x.Wallet.ProviderCents, Quiet: x.Quiet})
	}
	if unknown := x.Wallet.Unknown; len(unknown) > 0 && !b.uncompared {
		facts = append(facts, fact.LedgerUncompared{
			WalletCents: x.Wallet.BookCents, ProviderCents: x.Wallet.ProviderCents, OperationIDs: unknown[:min(len(unknown), 20)], OperationsTotal: len(unknown),
		})
	}
	if len(facts) > 0 {
		err := b.Ledger.Write(context.WithoutCancel(ctx), func(tx *ledger.Tx) error { return tx.Append(facts...) })
		if err != nil {
			return fmt.Errorf("record what was found: %w", err)
		}
	}
	b.published, b.suspect, b.uncompared = now, suspect, len(x.Wallet.Unknown) > 0
	return nil
}

func (b *books) recallPublished(ctx context.Context) error {
	if b.published != nil {
		return nil
	}
	earlier, _, err := b.Ledger.Money.PublishedDiscrepancies(ctx)
	if err != nil {
		return err
	}
	b.published = map[string]bool{}
	for _, f := range earlier {
		b.published[reconcile.Finding{Kind: f.Finding, AmountCents: f.AmountCents, OrderNo: f.OrderNo, OperationID: f.OperationID, ProxyID: f.ProxyID}.Key()] = true
	}
	return nil
}

// nameProxies appends the facts about listed orders that have ended, with their proxies. It
// skips a fact that is too large for the ledger, so that the others are appended.
func (b *books) nameProxies(ctx context.Context, all []fact.OrderListed) error {
	for _, f := range all {
		err := b.Ledger.Write(context.WithoutCancel(ctx), func(tx *ledger.Tx) error { return tx.Append(f) })
		if errors.Is(err, ledger.ErrTooLarge) {
			b.Log.WithError(err).WithField("order_no", f.OrderNo).Warn("the proxies of an order cannot be named, and carry no labels: name them in the schedule's match.proxy_ids")
			continue
		}
		if err != nil {
			return fmt.Errorf("name the proxies of order %s: %w", f.OrderNo, err)
		}
	}
	return nil
}

// side returns whether the wallet has more or less than the books allow. Two passes are
// compared only by direction, because the amount may change between them.
func side(f reconcile.Finding) string {
	if f.AmountCents < 0 {
		return "less"
	}
	return "more"
}

func (b *books) discrepancy(ctx context.Context, f reconcile.Finding) fact.Fact {
	x := fact.LedgerDiscrepancy{Finding: f.Kind, AmountCents: f.AmountCents, OrderNo: f.OrderNo, ProxyID: f.ProxyID, Explanation: f.Explanation}
	if o, err := b.Ledger.Operations.Operation(ctx, f.OperationID); err == nil {
		x.Ref = fact.Ref{CommandID: o.CommandID, OperationID: o.ID}
		if accepted, err := b.Ledger.Operations.Acceptance(ctx, o.CommandID); err == nil {
			x.Labels, x.Trace = accepted.Labels, accepted.Trace
		}
	}
	b.Log.WithField("kind", f.Kind).WithField("cents", f.AmountCents).WithField("order_no", f.OrderNo).WithField("operation_id", f.OperationID).
		Warn("books and provider differ: " + f.Explanation)
	return x
}

// Evidence collects what is known about an operation that needs review, from the ledger and
// the provider's lists. While the account is paused it uses the ledger only.
func (b *books) Evidence(ctx context.Context, id string) (inspect.Evidence, error) {
	if err := b.readable(); err != nil {
		e, collectErr := inspect.CollectEvidence(ctx, b.Ledger, nil, id)
		e.Notes = []string{err.Error()}
		return e, collectErr
	}
	return inspect.CollectEvidence(ctx, b.Ledger, b.newReconciler(), id)
}
