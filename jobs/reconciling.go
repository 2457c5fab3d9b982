// When the runner reconciles, how it reads the wallet exactly, and which findings it
// publishes.

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
)

// books compares the ledger with the provider: one pass at a time, and the result of the last.
type books struct {
	*Config
	pauses      *pauses
	binding     func() fact.Binding
	now         func() time.Time                                       // by the clock that is compared with the provider's
	heard       func(ctx context.Context, server time.Time, err error) // takes in the outcome of a read
	passRead    func(context.Context) error                            // waits for the turn of a read that a person waits for
	passListing func(context.Context) error                            // and of one in the background
	wake        func()                                                 // something may be due again

	turn       chan struct{} // holds one token: its holder reconciles
	reconciler *reconcile.Reconciler
	published  map[string]bool // findings that were published already; nil before the first
	uncompared bool            // the wallet could not be compared, and that was published
	attended   atomic.Bool     // the pass in progress is a person's: it may use the whole rate
	suspect    string          // the side of a wallet's difference that the last pass saw first

	mu    sync.Mutex
	last  LastReconciliation
	moved time.Time // when a pass last came to its end, or could not begin under a pause
}

// LastReconciliation is what the latest one showed, or why there is none.
type LastReconciliation struct {
	At              time.Time `json:"at,omitzero" doc:"Of the last one that ended."`
	OK              *bool     `json:"ok" doc:"Nil where the wallet could not be compared."`
	Quiet           bool      `json:"quiet" doc:"Nothing was in progress when the wallet was read."`
	Findings        int       `json:"findings" doc:"How many differences there were."`
	DifferenceCents *int64    `json:"difference_cents" doc:"Of the wallet; nil as 'ok' is."`
	ProviderCents   *int64    `json:"provider_cents" doc:"What the provider said that the wallet holds; nil before the first."`
	Failed          string    `json:"failed,omitempty" doc:"'failed' is why the latest attempt did not come to its end, \"\" when it did."`

	unsure bool // the wallet differs, and another pass has to see it
}

// Agrees reports whether all was compared and agreed.
func (x LastReconciliation) Agrees() bool { return x.OK != nil && *x.OK }

// LastReconciliation is what the latest one showed; At is zero before the first
// of this run has come to its end.
func (b *books) LastReconciliation() LastReconciliation {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

// Unreconciled says that no pass has come to its end for unreconciledAfter intervals and
// unreconciledLeast; "" where one has. A pause of the account is said as such.
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

// Intervals of automatic reconciliation.
const (
	reconcileFirst = time.Minute     // after the start, so that one that restarts often reconciles too
	reconcileAgain = 5 * time.Minute // after one that failed

	unreconciledAfter = 3                // intervals
	unreconciledLeast = 30 * time.Minute // a pass at a low rate takes its time
)

// keepReconciling reconciles on its schedule. A pass that fails is logged and
// tried again: it changes nothing, so nothing depends on it.
func (b *books) keepReconciling(ctx context.Context) error {
	if b.ReconcileEvery <= 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	b.move(b.Clock())
	wait := min(b.ReconcileEvery, reconcileFirst)
	for {
		if err := sleep.For(ctx, wait); err != nil {
			return err
		}
		wait = b.ReconcileEvery
		_, err := b.reconcile(ctx, b.scheduledReading, afterTwoPasses)
		if err != nil || b.LastReconciliation().unsure {
			wait = min(wait, reconcileAgain)
		}
		if err != nil && ctx.Err() == nil {
			b.Log.WithError(err).Warn("the books could not be compared with the provider; it is tried again")
		}
	}
}

// Reconcile compares the books with the provider now, and reads the wallet
// exactly if it can: nothing new is sent while what is in progress finishes, for
// SettleTimeout at most. Findings are published once, agreement each time. The
// wallet's difference, which a provider may show late, is published when two passes
// of the schedule have seen it, or one that a person asked for. The error is a
// RefusedError while the account is paused, else the provider's. A person waits for the
// pass, so it is not held to the share of the rate that reads in the background have; what
// buys and renews still goes first.
func (b *books) Reconcile(ctx context.Context) (reconcile.Reconciliation, error) {
	return b.reconcile(ctx, b.exactReading, atOnce)
}

// publication is when a wallet's difference is published.
type publication int

const (
	afterTwoPasses publication = iota // of the schedule: a provider may show the wallet late
	atOnce                            // a person asked for the pass, and it read the wallet exactly
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
		Account: b.Account, Ledger: b.Ledger, Statements: b.Provider, Binding: b.binding(), Clock: b.now, Heard: b.heard,
		Pass: func(ctx context.Context) error {
			if err := b.readable(); err != nil {
				return err
			}
			if b.attended.Load() {
				return b.passRead(ctx)
			}
			return b.passListing(ctx)
		},
		Reads: b.readsOfAPass(),
	})
}

// readsOfAPass fits a pass into half of the interval at its share of the rate.
func (b *books) readsOfAPass() int {
	const least, most = 60, 2000
	if b.ReconcileEvery <= 0 {
		return least
	}
	return max(least, min(most, int(b.RatePerSecond*readShare*b.ReconcileEvery.Seconds()/2)))
}

// readable refuses to read while the account is paused: a Retry-After holds
// every sender. After a restore the reads are what a person decides by.
func (b *books) readable() error {
	if _, blocked := b.pauses.untilBut(lanePoll, ledger.CauseRestored); !blocked {
		return nil
	}
	return command.Refuse("the account is paused, so the provider is not asked: see `perennial accounts show`")
}

// scheduledReading reads the wallet while operations continue.
func (b *books) scheduledReading(ctx context.Context) (reconcile.WalletReading, error) {
	return b.reconciler.ReadWallet(ctx)
}

// exactTries bounds the readings with the gate closed: an intent that passed it
// a moment before it closed may be committed beside the first.
const exactTries = 3

// exactReading closes the write gate, lets what is in progress finish, and reads
// the wallet. What cannot finish automatically widens the interval.
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

// untilSettled waits until nothing that could end automatically is in progress, or
// until the context's time has passed, which is no error.
func (b *books) untilSettled(ctx context.Context) error {
	for {
		p, err := b.Ledger.Position(context.WithoutCancel(ctx), b.Account)
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

// moving reports whether something ends automatically: a request whose reply is
// awaited, an order whose charge is not booked. What waits to be sent again
// does not, while the gate is closed.
func moving(open []ledger.Exposure) bool {
	for _, x := range open {
		if x.State == fact.StateSending || (x.State == fact.StateOpen && x.Charge != fact.Known(0)) {
			return true
		}
	}
	return false
}

// publish makes facts of a reconciliation: each new finding, and agreement.
func (b *books) publish(ctx context.Context, x reconcile.Reconciliation, when publication) error {
	if err := b.recallPublished(ctx); err != nil {
		return err
	}
	facts, now, suspect := []fact.Fact{}, map[string]bool{}, ""
	if x.Wallet.Late { // it ends no finding of the wallet
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

// recallPublished takes over what an earlier run has published.
func (b *books) recallPublished(ctx context.Context) error {
	if b.published != nil {
		return nil
	}
	earlier, _, err := b.Ledger.PublishedDiscrepancies(ctx)
	if err != nil {
		return err
	}
	b.published = map[string]bool{}
	for _, f := range earlier {
		b.published[reconcile.Finding{Kind: f.Finding, AmountCents: f.AmountCents, OrderNo: f.OrderNo, OperationID: f.OperationID, ProxyID: f.ProxyID}.Key()] = true
	}
	return nil
}

// nameProxies makes facts of what a pass saw of ended orders. One that is too large is left
// out, so that it holds up nothing else.
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

// side is whether the wallet holds more or less than the books allow. By how much
// may change from pass to pass, with what is in progress.
func side(f reconcile.Finding) string {
	if f.AmountCents < 0 {
		return "less"
	}
	return "more"
}

// discrepancy is a finding as a fact, under its operation where it has one.
func (b *books) discrepancy(ctx context.Context, f reconcile.Finding) fact.Fact {
	x := fact.LedgerDiscrepancy{Finding: f.Kind, AmountCents: f.AmountCents, OrderNo: f.OrderNo, ProxyID: f.ProxyID, Explanation: f.Explanation}
	if o, err := b.Ledger.Operation(ctx, f.OperationID); err == nil {
		x.Ref = fact.Ref{CommandID: o.CommandID, OperationID: o.ID}
		if accepted, err := b.Ledger.Acceptance(ctx, o.CommandID); err == nil {
			x.Labels, x.Trace = accepted.Labels, accepted.Trace
		}
	}
	b.Log.WithField("kind", f.Kind).WithField("cents", f.AmountCents).WithField("order_no", f.OrderNo).WithField("operation_id", f.OperationID).
		Warn("books and provider differ: " + f.Explanation)
	return x
}

// Evidence collects what is known of an operation that needs review, the
// provider's lists included.
func (b *books) Evidence(ctx context.Context, id string) (inspect.Evidence, error) {
	if err := b.readable(); err != nil {
		e, collectErr := inspect.CollectEvidence(ctx, b.Ledger, nil, id)
		e.Notes = []string{err.Error()}
		return e, collectErr
	}
	return inspect.CollectEvidence(ctx, b.Ledger, b.newReconciler(), id)
}
