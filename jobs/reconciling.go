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

// readShare is how much of an account's rate may go to what only reads in the
// background: listings and reconciliations together.
const readShare = 0.3

// PassListing waits for a turn of what only reads: within its share of the
// rate, and after everything else but for the share that the gate keeps for reads.
func (r *Runner) PassListing(ctx context.Context) error {
	if err := r.share.Wait(ctx); err != nil {
		return err
	}
	return r.passRead(ctx)
}

// reconciling is the runner's reconciliations: one at a time, and the last one.
type reconciling struct {
	turn       chan struct{} // holds one token: its holder reconciles
	reconciler *reconcile.Reconciler
	published  map[string]bool // findings that were published already; nil before the first
	uncompared bool            // the wallet could not be compared, and that was published
	attended   atomic.Bool     // the pass under way is a person's: it may use the whole rate
	suspect    string          // the side of a wallet's difference that the last pass saw first

	mu    sync.Mutex
	last  LastReconciliation
	moved time.Time // when a pass last came to its end, or could not begin under a pause
}

// LastReconciliation is what the latest one showed, or why there is none.
type LastReconciliation struct {
	At              time.Time `json:"at,omitzero" doc:"Of the last one that ended."`
	OK              *bool     `json:"ok" doc:"Nil where the wallet could not be compared."`
	Quiet           bool      `json:"quiet" doc:"Nothing was under way when the wallet was read."`
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
func (r *Runner) LastReconciliation() LastReconciliation {
	r.reconciling.mu.Lock()
	defer r.reconciling.mu.Unlock()
	return r.reconciling.last
}

// Unreconciled says that no pass has come to its end for unreconciledAfter intervals and
// unreconciledLeast; "" where one has. A pause of the account is said as such.
func (r *Runner) Unreconciled() string {
	r.reconciling.mu.Lock()
	defer r.reconciling.mu.Unlock()
	moved := r.reconciling.moved
	if moved.IsZero() || r.Clock().Sub(moved) <= max(unreconciledAfter*r.ReconcileEvery, unreconciledLeast) {
		return ""
	}
	why := r.reconciling.last.Failed
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
func (r *Runner) keepReconciling(ctx context.Context) error {
	if r.ReconcileEvery <= 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	r.reconciling.move(r.Clock())
	wait := min(r.ReconcileEvery, reconcileFirst)
	for {
		if err := sleep.For(ctx, wait); err != nil {
			return err
		}
		wait = r.ReconcileEvery
		_, err := r.reconcile(ctx, r.scheduledReading, afterTwoPasses)
		if err != nil || r.LastReconciliation().unsure {
			wait = min(wait, reconcileAgain)
		}
		if err != nil && ctx.Err() == nil {
			r.Log.WithError(err).Warn("the books could not be compared with the provider; it is tried again")
		}
	}
}

// Reconcile compares the books with the provider now, and reads the wallet
// exactly if it can: nothing new is sent while what is under way finishes, for
// SettleTimeout at most. Findings are published once, agreement each time. The
// wallet's difference, which a provider may show late, is published when two passes
// of the schedule have seen it, or one that a person asked for. The error is a
// RefusedError while the account is paused, else the provider's. A person waits for the
// pass, so it is not held to the share of the rate that reads in the background have; what
// buys and renews still goes first.
func (r *Runner) Reconcile(ctx context.Context) (reconcile.Reconciliation, error) {
	return r.reconcile(ctx, r.exactReading, atOnce)
}

// publication is when a wallet's difference is published.
type publication int

const (
	afterTwoPasses publication = iota // of the schedule: a provider may show the wallet late
	atOnce                            // a person asked for the pass, and it read the wallet exactly
)

func (x *reconciling) move(now time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.moved = now
}

func (r *Runner) reconcile(ctx context.Context, reading func(context.Context) (reconcile.WalletReading, error), when publication) (reconcile.Reconciliation, error) {
	select {
	case r.reconciling.turn <- struct{}{}:
	case <-ctx.Done():
		return reconcile.Reconciliation{}, ctx.Err()
	}
	defer func() { <-r.reconciling.turn }()
	r.reconciling.attended.Store(when == atOnce)
	defer r.reconciling.attended.Store(false)
	if r.reconciling.reconciler == nil {
		r.reconciling.reconciler = r.newReconciler()
	}
	x, err := r.reconciling.reconciler.Reconcile(ctx, reading)
	if err == nil {
		err = errors.Join(r.publish(ctx, x, when), r.nameProxies(ctx, x.Listed))
	}
	if _, refused := errors.AsType[*command.RefusedError](err); (err == nil || refused) && r.ReconcileEvery > 0 {
		r.reconciling.move(r.Clock())
	}
	r.reconciling.mu.Lock()
	defer r.reconciling.mu.Unlock()
	if err != nil {
		r.reconciling.last.Failed = fact.Bounded(err.Error())
		return x, err
	}
	r.reconciling.last = LastReconciliation{At: x.At, OK: x.OK, Quiet: x.Quiet, Findings: len(x.Findings), ProviderCents: &x.Wallet.ProviderCents, unsure: r.reconciling.suspect != "" || x.Wallet.Late}
	if x.OK != nil {
		r.reconciling.last.DifferenceCents = new(x.DifferenceCents())
	}
	return x, nil
}

func (r *Runner) newReconciler() *reconcile.Reconciler {
	return reconcile.NewReconciler(reconcile.ReconcilerConfig{
		Account: r.Account, Ledger: r.Ledger, Statements: r.Provider, Binding: r.binding, Clock: r.clock.Now, Heard: r.Read,
		Pass: func(ctx context.Context) error {
			if err := r.readable(); err != nil {
				return err
			}
			if r.reconciling.attended.Load() {
				return r.passRead(ctx)
			}
			return r.PassListing(ctx)
		},
		Reads: r.readsOfAPass(),
	})
}

// readsOfAPass fits a pass into half of the interval at its share of the rate.
func (r *Runner) readsOfAPass() int {
	const least, most = 60, 2000
	if r.ReconcileEvery <= 0 {
		return least
	}
	return max(least, min(most, int(r.RatePerSecond*readShare*r.ReconcileEvery.Seconds()/2)))
}

// readable refuses to read while the account is paused: a Retry-After holds
// every sender. After a restore the reads are what a person decides by.
func (r *Runner) readable() error {
	if _, blocked := r.pauses.untilBut(lanePoll, ledger.CauseRestored); !blocked {
		return nil
	}
	return command.Refuse("the account is paused, so the provider is not asked: see `perennial accounts show`")
}

// scheduledReading reads the wallet while operations continue.
func (r *Runner) scheduledReading(ctx context.Context) (reconcile.WalletReading, error) {
	return r.reconciling.reconciler.ReadWallet(ctx)
}

// exactTries bounds the readings with the gate closed: an intent that passed it
// a moment before it closed may be committed beside the first.
const exactTries = 3

// exactReading closes the write gate, lets what is under way finish, and reads
// the wallet. What cannot finish automatically widens the interval.
func (r *Runner) exactReading(ctx context.Context) (w reconcile.WalletReading, err error) {
	r.pauses.closeGate()
	defer func() {
		r.pauses.openGate()
		r.wakeDueLoop()
	}()
	settle, cancel := context.WithTimeout(ctx, r.SettleTimeout)
	defer cancel()
	for range exactTries {
		if err := r.untilSettled(settle); err != nil {
			return w, err
		}
		if w, err = r.reconciling.reconciler.ReadWallet(ctx); err != nil || !w.Moved {
			return w, err
		}
	}
	return w, nil
}

// untilSettled waits until nothing that could end automatically is under way, or
// until the context's time has passed, which is no error.
func (r *Runner) untilSettled(ctx context.Context) error {
	for {
		p, err := r.Ledger.Position(context.WithoutCancel(ctx), r.Account)
		if err != nil || !moving(p.Open) {
			return err
		}
		select {
		case <-r.Ledger.Changed(p.Head.Seq):
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
func (r *Runner) publish(ctx context.Context, x reconcile.Reconciliation, when publication) error {
	if err := r.recallPublished(ctx); err != nil {
		return err
	}
	facts, now, suspect := []fact.Fact{}, map[string]bool{}, ""
	if x.Wallet.Late { // it ends no finding of the wallet
		maps.Copy(now, r.reconciling.published)
		maps.DeleteFunc(now, func(key string, _ bool) bool { return !strings.HasPrefix(key, decide.FindingWallet+"\x00") })
	}
	for _, f := range x.Findings {
		if f.Kind == decide.FindingWallet && !r.reconciling.published[f.Key()] && (f.Carried || when == afterTwoPasses && r.reconciling.suspect != side(f)) {
			suspect = side(f)
			continue
		}
		if now[f.Key()] = true; !r.reconciling.published[f.Key()] {
			facts = append(facts, r.discrepancy(ctx, f))
		}
	}
	if x.Agrees() {
		facts = append(facts, fact.LedgerReconciled{WalletCents: x.Wallet.BookCents, ProviderCents: x.Wallet.ProviderCents, Quiet: x.Quiet})
	}
	if unknown := x.Wallet.Unknown; len(unknown) > 0 && !r.reconciling.uncompared {
		facts = append(facts, fact.LedgerUncompared{
			WalletCents: x.Wallet.BookCents, ProviderCents: x.Wallet.ProviderCents, OperationIDs: unknown[:min(len(unknown), 20)], OperationsTotal: len(unknown),
		})
	}
	if len(facts) > 0 {
		err := r.Ledger.Write(context.WithoutCancel(ctx), func(tx *ledger.Tx) error { return tx.Append(facts...) })
		if err != nil {
			return fmt.Errorf("record what was found: %w", err)
		}
	}
	r.reconciling.published, r.reconciling.suspect, r.reconciling.uncompared = now, suspect, len(x.Wallet.Unknown) > 0
	return nil
}

// recallPublished takes over what an earlier run has published.
func (r *Runner) recallPublished(ctx context.Context) error {
	if r.reconciling.published != nil {
		return nil
	}
	earlier, _, err := r.Ledger.PublishedDiscrepancies(ctx)
	if err != nil {
		return err
	}
	r.reconciling.published = map[string]bool{}
	for _, f := range earlier {
		r.reconciling.published[reconcile.Finding{Kind: f.Finding, AmountCents: f.AmountCents, OrderNo: f.OrderNo, OperationID: f.OperationID, ProxyID: f.ProxyID}.Key()] = true
	}
	return nil
}

// nameProxies makes facts of what a pass saw of ended orders. One that is too large is left
// out, so that it holds up nothing else.
func (r *Runner) nameProxies(ctx context.Context, all []fact.OrderListed) error {
	for _, f := range all {
		err := r.Ledger.Write(context.WithoutCancel(ctx), func(tx *ledger.Tx) error { return tx.Append(f) })
		if errors.Is(err, ledger.ErrTooLarge) {
			r.Log.WithError(err).WithField("order_no", f.OrderNo).Warn("the proxies of an order cannot be named, and carry no labels: name them in the schedule's match.proxy_ids")
			continue
		}
		if err != nil {
			return fmt.Errorf("name the proxies of order %s: %w", f.OrderNo, err)
		}
	}
	return nil
}

// side is whether the wallet holds more or less than the books allow. By how much
// may change from pass to pass, with what is under way.
func side(f reconcile.Finding) string {
	if f.AmountCents < 0 {
		return "less"
	}
	return "more"
}

// discrepancy is a finding as a fact, under its operation where it has one.
func (r *Runner) discrepancy(ctx context.Context, f reconcile.Finding) fact.Fact {
	x := fact.LedgerDiscrepancy{Finding: f.Kind, AmountCents: f.AmountCents, OrderNo: f.OrderNo, ProxyID: f.ProxyID, Explanation: f.Explanation}
	if o, err := r.Ledger.Operation(ctx, f.OperationID); err == nil {
		x.Ref = fact.Ref{CommandID: o.CommandID, OperationID: o.ID}
		if accepted, err := r.Ledger.Acceptance(ctx, o.CommandID); err == nil {
			x.Labels, x.Trace = accepted.Labels, accepted.Trace
		}
	}
	r.Log.WithField("kind", f.Kind).WithField("cents", f.AmountCents).WithField("order_no", f.OrderNo).WithField("operation_id", f.OperationID).
		Warn("books and provider differ: " + f.Explanation)
	return x
}

// Evidence collects what is known of an operation that waits for a person, the
// provider's lists included.
func (r *Runner) Evidence(ctx context.Context, id string) (inspect.Evidence, error) {
	if err := r.readable(); err != nil {
		e, collectErr := inspect.CollectEvidence(ctx, r.Ledger, nil, id)
		e.Notes = []string{err.Error()}
		return e, collectErr
	}
	return inspect.CollectEvidence(ctx, r.Ledger, r.newReconciler(), id)
}
