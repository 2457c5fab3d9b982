package daemon

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"perennial/cmd/perennial/internal/cluster"
	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/tracing"
	"perennial/cmd/perennial/internal/webhook"
	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/queue/intake"
	"perennial/schedules"
	"perennial/upstream"
)

type metrics struct{ host *Host }

// metric declares a metric. The collector and the row in docs/monitor.md derive from it.
type metric struct {
	name, kind, help string
	labels           []string
}

func declare(name, kind, help string, labels []string) metric {
	return metric{"perennial_" + name, kind, help, append([]string{"account"}, labels...)}
}

// measure is a metric that is read at each scrape: a gauge, or a counter that the ledger keeps.
type measure struct {
	metric
	*prometheus.Desc
	kind prometheus.ValueType
}

var measures []measure

func read(kind prometheus.ValueType, name, help string, labels ...string) measure {
	d := declare(name, kind.ToDTO().String(), help, labels)
	m := measure{d, prometheus.NewDesc(d.name, d.help, d.labels, nil), kind}
	measures = append(measures, m)
	return m
}

const (
	gauge   = prometheus.GaugeValue
	counter = prometheus.CounterValue
)

var (
	operationsNow  = read(gauge, "operations", "Operations by state.", "state")
	bookNow        = read(gauge, "book_cents", "The books, in cents: wallet, charged, refunded, suspense (charges of unknown result), funding (money put in) or external (spent outside Perennial).", "of")
	chargedEver    = read(counter, "charged_cents_total", "Cents booked as charged, including suspense, by kind of operation.", "kind")
	refundedEver   = read(counter, "refunded_cents_total", "Cents booked as refunded, by kind of operation.", "kind")
	spentNow       = read(gauge, "spent_cents", "Net spending of the last seven days, in cents.")
	runwayNow      = read(gauge, "runway_seconds", "Runway: how long the wallet lasts at the rate of spending of the last seven days, less what the last reconciliation found missing at the provider. A ledger younger than seven days uses the rate since it was opened. Absent if nothing was spent.")
	headNow        = read(gauge, "journal_seq", "The newest journal row.")
	publishedNow   = read(gauge, "published_seq", "The newest journal row on the events stream; on a standby, the newest known row.")
	unpublished    = read(gauge, "unpublished_rows", "Backlog: journal rows not yet on the events stream.")
	waitingNow     = read(gauge, "commands_waiting", "Backlog: commands not yet accepted into the ledger.")
	reviewsNow     = read(gauge, "reviews", "Operations, lines of renewals, and proxies that need review.")
	pausedNow      = read(gauge, "paused", "1 for each active pause.", "scope", "cause")
	providerWallet = read(gauge, "provider_wallet_cents", "The provider's wallet at the last reconciliation, in cents; absent before the first.")
	reconciledAt   = read(gauge, "reconciled_timestamp_seconds", "When the books were last reconciled; absent before the first time.")
	reconciledOK   = read(gauge, "reconciled_ok", "1 if books and provider agreed at the last reconciliation; absent if the wallet could not be compared.")
	uncomparedNow  = read(gauge, "reconciled_unknown", "1 if the last reconciliation could not compare the wallet, because the cost of an open operation is unknown and its command sets no limit.")
	differenceNow  = read(gauge, "reconciled_difference_cents", "The part of the wallet's difference that no open operation explains, at the last reconciliation.")
	sweepFailed    = read(gauge, "sweep_failed", "1 if a run of the schedule is due and fails.", "schedule")
	sweepExpiring  = read(gauge, "sweep_failed_expiring", "Proxies of a failing run that expire before the schedule's next time. If the schedule's file of ids cannot be read, it counts the proxies that match its other conditions.", "schedule")
	sweepNext      = read(gauge, "sweep_next_timestamp_seconds", "When the schedule runs next.", "schedule")
	schedulePaused = read(gauge, "schedule_paused_timestamp_seconds", "When the schedule was paused; absent if it is not paused.", "schedule")
	sweepLast      = read(gauge, "sweep_last_timestamp_seconds", "When the schedule last ran.", "schedule")
	sweepFinished  = read(gauge, "sweep_finished_timestamp_seconds", "When a run of the schedule last published all its commands; a run with nothing due counts.", "schedule")
	sweepState     = read(gauge, "sweep_state", "1 for the state of the schedule's latest run: planned, held, finished or missed.", "schedule", "state")
	sweepDue       = read(gauge, "sweep_due", "Proxies that were due in the schedule's latest plan.", "schedule")
	sweepCents     = read(gauge, "sweep_planned_cents", "Estimated cents of the schedule's latest plan, without proxies of unknown price; absent if no price is known.", "schedule")
	sweepUnpriced  = read(gauge, "sweep_planned_unpriced", "Proxies of unknown price in the schedule's latest plan.", "schedule")
	checkNow       = read(gauge, "check", "1 if the check of /readyz?verbose passes.", "check")
	lagNow         = read(gauge, "lag_rows", "Lag of a standby, in rows of the events stream; 0 on the leader.")
	roleNow        = read(gauge, "role", "1 for the runner's role in the account: active (the leader) or standby.", "role")
	readyNow       = read(gauge, "ready", "1 if the account is ready.")
	expiringNow    = read(gauge, "proxies_expiring", "Listed proxies that expire within a time. 0s: already expired. any: all with an expiry. Absent on a standby, and before the first complete listing.", "within")
	unlistedNow    = read(gauge, "proxies_unlisted", "Known proxies that are missing from complete listings; schedules still renew them. Absent on a standby.")
	uncoveredNow   = read(gauge, "proxies_uncovered", "Proxies that no schedule matches, or whose expiry is not known, at the last complete listing; absent before the first listing.")
	unusableNow    = read(gauge, "proxies_unusable", "Unreadable entries of the last listing; schedules do not renew these proxies. Absent on a standby.")
	listingLost    = read(gauge, "listing_lost", "Proxies missing from the last listing, if they reach listing_loss_percent and listing_loss_min; else 0.")
	windowLeft     = read(gauge, "ambiguous_window_seconds", "How much longer the oldest operation of unknown outcome is retried; at 0 it needs review. Absent if there is none.")
	sizeNow        = read(gauge, "ledger_bytes", "Bytes of the ledger file and of its write-ahead log.", "file")
	backedUpNow    = read(gauge, "backup_timestamp_seconds", "When `perennial backup create` last backed up this ledger file, as recorded in ACCOUNT.ledger.db.backup.json beside the file; 0 if never.")
	webhookBehind  = read(gauge, "webhook_behind_events", "Lag of a webhook, in events of any type; only on the runner that delivers.", "webhook")
	webhookOldest  = read(gauge, "webhook_oldest_seconds", "Age of the oldest event that was read for a webhook and not delivered, or 0; only on the runner that delivers.", "webhook")
	skewNow        = read(gauge, "clock_skew_seconds", "Clock skew: how far this machine's clock was ahead of the provider's at the last reply; absent before.")
)

var (
	builtAs   = metric{"perennial_build_info", "GAUGE", "1. The labels say which program runs.", []string{"version", "commit", "go"}}
	buildInfo = prometheus.NewDesc(builtAs.name, builtAs.help, builtAs.labels, nil)
)

func (metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- buildInfo
	for _, m := range measures {
		ch <- m.Desc
	}
}

func (m metrics) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(buildInfo, gauge, 1, config.Version, config.Commit(), runtime.Version())
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, d := range m.host.absent {
		ch <- prometheus.MustNewConstMetric(checkNow.Desc, checkNow.kind, 0, d.name, d.check.Name)
		ch <- prometheus.MustNewConstMetric(readyNow.Desc, readyNow.kind, 0, d.name)
		ch <- prometheus.MustNewConstMetric(roleNow.Desc, roleNow.kind, 1, d.name, cluster.RoleActive)
	}
	for _, a := range m.host.Accounts {
		set := func(m measure, value float64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(m.Desc, m.kind, value, append([]string{a.Name}, labels...)...)
		}
		g := gauges{a}
		g.measureHealth(ctx, set)
		for _, part := range []func(context.Context, setter) error{g.measureBooks, g.measureState, g.measureFleet, g.measureSweeps, g.measureWebhooks} {
			if err := part(ctx, set); err != nil && ctx.Err() == nil {
				a.log.WithError(err).Warn("some metrics could not be read from the ledger")
			}
		}
	}
}

type setter func(m measure, value float64, labels ...string)

func (set setter) at(m measure, t time.Time, labels ...string) {
	set(m, float64(t.UnixMicro())/1e6, labels...)
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

type gauges struct{ *account }

func (a gauges) measureHealth(ctx context.Context, set setter) {
	ready := true
	for _, c := range a.checks() {
		ready = ready && c.OK
		set(checkNow, truth(c.OK), c.Name)
	}
	set(readyNow, truth(ready))
	set(roleNow, 1, a.role())
	set(lagNow, float64(a.snapshot().standby.lag))
	for _, f := range a.failingSweeps() {
		set(sweepFailed, 1, f.Schedule)
		set(sweepExpiring, float64(f.Expiring), f.Schedule)
	}
	file, log := a.Ledger().Sizes()
	set(sizeNow, float64(file), "ledger")
	set(sizeNow, float64(log), "log")
	if backup, err := a.Ledger().LastBackup(); err != nil {
		a.log.WithError(err).Warn("the age of the last backup is not known")
	} else if backup.At.IsZero() {
		set(backedUpNow, 0)
	} else {
		set.at(backedUpNow, backup.At)
	}
	if a.host.Queue.Down() != "" {
		return
	}
	limited, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	if n, err := intake.Waiting(limited, a.js(), a.Name); err == nil {
		set(waitingNow, float64(n))
	}
}

// spentOver is the period over which spending is averaged.
const spentOver = 7 * 24 * time.Hour

func (a gauges) measureBooks(ctx context.Context, set setter) error {
	l := a.Ledger()
	b, err := l.Money.Balance(ctx, a.Name)
	if err != nil {
		return err
	}
	for of, cents := range map[string]int64{
		"wallet": b.WalletCents, "charged": b.ChargedCents, "refunded": b.RefundedCents, "suspense": b.SuspenseCents,
		"funding": b.FundingCents, "external": b.ExternalCents,
	} {
		set(bookNow, float64(cents), of)
	}
	set(headNow, float64(b.Head.Seq))
	kinds, err := l.Metrics.SpentByKind(ctx)
	for _, s := range kinds {
		set(chargedEver, float64(s.ChargedCents), string(s.Kind))
		set(refundedEver, float64(s.RefundedCents), string(s.Kind))
	}
	if err != nil {
		return err
	}
	opened, err := l.Money.OpenedAt(ctx)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil
	}
	now := time.Now()
	spent, spentErr := l.Metrics.NetSpentSince(ctx, now.Add(-spentOver))
	if err := errors.Join(err, spentErr); err != nil {
		return err
	}
	set(spentNow, float64(spent))
	if over := max(min(spentOver, now.Sub(opened)), 24*time.Hour); spent > 0 {
		set(runwayNow, over.Seconds()*float64(b.WalletCents-a.missing())/float64(spent))
	}
	return nil
}

// missing compares the provider's wallet with the range that the books allowed at the last
// reconciliation. It returns by how many cents the wallet was below this range. That part of the
// ledger balance cannot pay for anything.
func (a gauges) missing() int64 {
	runner := a.snapshot().runner
	if runner == nil {
		return 0
	}
	if off := runner.LastReconciliation().DifferenceCents; off != nil {
		return max(0, -*off)
	}
	return 0
}

func (a gauges) measureState(ctx context.Context, set setter) error {
	l := a.Ledger()
	counts, err := l.Operations.StateCounts(ctx)
	for state, n := range counts {
		set(operationsNow, float64(n), string(state))
	}
	reviews, reviewsErr := l.Operations.CountReviews(ctx)
	oldest, oldestErr := l.Metrics.OldestAmbiguous(ctx)
	v, shown := answers(a).show(ctx, struct{}{})
	if err := errors.Join(err, reviewsErr, oldestErr, shown); err != nil {
		return err
	}
	set(reviewsNow, float64(reviews))
	if oldest != nil {
		set(windowLeft, max(0, decide.Window-time.Since(*oldest)).Seconds())
	}
	set(publishedNow, float64(v.Published))
	set(unpublished, float64(max(v.Head.Seq-int64(v.Published), 0)))
	for _, p := range v.Paused {
		set(pausedNow, 1, p.Scope, p.Cause)
	}
	if last := v.Reconciled; !last.At.IsZero() {
		set.at(reconciledAt, last.At)
		if last.ProviderCents != nil {
			set(providerWallet, float64(*last.ProviderCents))
		}
		if last.DifferenceCents != nil {
			set(differenceNow, float64(*last.DifferenceCents))
		}
		if last.OK != nil {
			set(reconciledOK, truth(*last.OK))
		}
		set(uncomparedNow, truth(last.OK == nil))
	}
	if skew, heard := a.clockSkew(); heard {
		set(skewNow, skew.Seconds())
	}
	return nil
}

// clockSkew returns how far this machine's clock is ahead of the provider's clock. heard is
// false until a reply from the provider has shown its time.
func (a *account) clockSkew() (skew time.Duration, heard bool) {
	runner := a.snapshot().runner
	if runner == nil {
		return 0, false
	}
	return runner.ClockSkew()
}

// spans are the label values of proxies_expiring, in order.
var spans = []struct {
	name string
	time.Duration
}{{"0s", 0}, {"1h", time.Hour}, {"6h", 6 * time.Hour}, {"1d", 24 * time.Hour}, {"3d", 72 * time.Hour}, {"7d", 168 * time.Hour}, {"30d", 720 * time.Hour}, {"any", 1 << 62}}

// measureFleet sets the metrics of the proxies. It measures their remaining time with the
// provider's clock.
func (a gauges) measureFleet(ctx context.Context, set setter) error {
	if a.role() == cluster.RoleStandby {
		return nil // its proxies are those of an earlier listing
	}
	if last, err := a.Ledger().Fleet.Listing(ctx); err != nil || last.Finished.IsZero() {
		return err // before the first listing, the count is unknown, not zero
	}
	now := time.Now()
	if skew, heard := a.clockSkew(); heard {
		now = now.Add(-skew)
	}
	before := make([]time.Time, len(spans))
	for i, s := range spans {
		before[i] = now.Add(s.Duration)
	}
	counts, err := a.Ledger().Metrics.CountExpiring(ctx, before)
	for i, n := range counts {
		set(expiringNow, float64(n), spans[i].name)
	}
	if err != nil {
		return err
	}
	unlisted, unusable, err := a.Ledger().Fleet.CountUnlisted(ctx)
	if err != nil {
		return err
	}
	sweeper := a.snapshot().sweeper
	if sweeper != nil {
		lost, nameless := sweeper.Lost()
		unusable += nameless
		set(listingLost, float64(lost))
		if n, known := sweeper.Uncovered(ctx); known {
			set(uncoveredNow, float64(n))
		}
	}
	set(unlistedNow, float64(unlisted))
	set(unusableNow, float64(unusable))
	return nil
}

func (a gauges) measureSweeps(ctx context.Context, set setter) error {
	sweeper := a.snapshot().sweeper
	if sweeper == nil {
		return nil
	}
	next, err := sweeper.Slots(ctx)
	if err != nil {
		return err
	}
	for _, s := range next {
		if s.Paused != nil {
			set.at(schedulePaused, s.Paused.Since, s.Schedule)
		}
		if !s.Next.IsZero() {
			set.at(sweepNext, s.Next, s.Schedule)
		}
		last, err := a.Ledger().Sweeps.LastSlot(ctx, s.Schedule)
		if errors.Is(err, ledger.ErrNotFound) {
			continue
		}
		finished, finishedErr := a.Ledger().Metrics.LastFinishedSlot(ctx, s.Schedule)
		if finishedErr == nil {
			set.at(sweepFinished, finished.At, s.Schedule)
		} else if !errors.Is(finishedErr, ledger.ErrNotFound) {
			err = errors.Join(err, finishedErr)
		}
		if err != nil {
			return err
		}
		set.at(sweepLast, last.At, s.Schedule)
		set(sweepState, 1, s.Schedule, last.State)
		if due, cost, err := a.Ledger().Sweeps.PlannedSums(ctx, last); err == nil {
			set(sweepDue, float64(due), s.Schedule)
			set(sweepUnpriced, float64(cost.Lacks), s.Schedule)
			if total := cost.Total(); total.Known() {
				set(sweepCents, float64(cost.Cents), s.Schedule)
			}
		} else if !errors.Is(err, ledger.ErrNotFound) {
			return err
		}
	}
	removed, err := sweeper.Removed(ctx)
	for _, x := range removed {
		if x.Plan != "" { // the plan of a removed schedule can still be approved; the alert for plans that need approval uses this state
			set(sweepState, 1, x.Schedule, schedules.StateHeld)
		}
	}
	return err
}

type meter struct {
	account string
	tracer  *tracing.Tracer // nil if traces are not sent

	requests       *prometheus.CounterVec
	requestSeconds *prometheus.HistogramVec
	heldSeconds    prometheus.Counter
	facts          *prometheus.CounterVec
	attempts       *prometheus.CounterVec
	ambiguous      prometheus.Counter
	reviews        *prometheus.CounterVec
	findings       *prometheus.CounterVec
	leftOut        *prometheus.CounterVec
	deadLetters    prometheus.Counter
	turns          prometheus.Counter
	tracesDropped  prometheus.Counter
	settleSeconds  *prometheus.HistogramVec
	eventSeconds   *prometheus.HistogramVec
	commitSeconds  prometheus.Observer
	commitWrites   prometheus.Observer
	webhooks       *prometheus.CounterVec
	webhookSeconds *prometheus.HistogramVec

	declared []metric
}

// Upper bounds of histogram buckets. requestBuckets, commandBuckets and commitBuckets are in
// seconds. Requests time out after 60 s, but commands may wait much longer for money or an
// operator. groupBuckets counts the writes in one commit.
var (
	requestBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	commandBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 86400}
	commitBuckets  = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5}
	groupBuckets   = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256}
)

// newMeter registers an account's counters. It creates the counters with known labels at 0.
// Without this value, Prometheus could not compute a rate for an event that has not happened
// yet.
func newMeter(registry prometheus.Registerer, account string) *meter {
	m := &meter{account: account}
	of := prometheus.Labels{"account": account}
	counted := func(name, help string, labels ...string) *prometheus.CounterVec {
		d := declare(name, "COUNTER", help, labels)
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.name, Help: d.help, ConstLabels: of}, labels)
		registry.MustRegister(v)
		m.declared = append(m.declared, d)
		return v
	}
	timed := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		d := declare(name, "HISTOGRAM", help, labels)
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: d.name, Help: d.help, Buckets: buckets, ConstLabels: of}, labels)
		registry.MustRegister(v)
		m.declared = append(m.declared, d)
		return v
	}
	m.requests = counted("provider_requests_total", "Completed requests to the provider, by endpoint, code of the envelope (none: no envelope was read; other: undocumented) and outcome: ok, refused, rate_limited, unknown (no envelope), not_sent (no byte was written).", "route", "code", "outcome")
	m.requestSeconds = timed("provider_request_seconds", "How long requests to the provider took, by endpoint, with the provider's trace_id as exemplar.", requestBuckets, "route")
	m.heldSeconds = counted("rate_limited_seconds_total", "Seconds for which Retry-After asked the account to wait.").WithLabelValues()
	m.facts = counted("facts_total", "Facts that this runner appended to the journal, by type.", "type")
	m.attempts = counted("attempts_total", "Attempts that this runner began: first attempts or retries.", "attempt")
	m.ambiguous = counted("ambiguous_attempts_total", "Attempts with an unknown outcome.").WithLabelValues()
	m.reviews = counted("reviews_opened_total", "Operations that began to need review, by the code of the provider's last reply (none: no reply; other: undocumented).", "code")
	m.findings = counted("findings_total", "Published differences between books and provider, by kind.", "finding")
	m.leftOut = counted("sweep_left_out_total", "Proxies that plans skipped, by schedule and reason.", "schedule", "reason")
	m.deadLetters = counted("dead_letters_total", "Messages that could not be read as commands.").WithLabelValues()
	m.turns = counted("turns_total", "How often this runner began to work for the account: at its start, after a failure, or at a failover.").WithLabelValues()
	m.tracesDropped = counted("traces_dropped_total", "Traces dropped because too many waited or the ledger could not be read.").WithLabelValues()
	m.settleSeconds = timed("settle_seconds", "Time from a command's acceptance to its end, by kind of operation.", commandBuckets, "kind")
	m.eventSeconds = timed("event_seconds", "Time from a command's publication to that of its command.finished, by kind of operation; without commands older than this process.", commandBuckets, "kind")
	m.commitSeconds = timed("commit_seconds", "How long commits of the ledger took.", commitBuckets).WithLabelValues()
	m.commitWrites = timed("commit_writes", "How many writes one commit of the ledger contained.", groupBuckets).WithLabelValues()
	m.webhooks = counted("webhook_deliveries_total", "Completed attempts to deliver an event to a webhook, by outcome: delivered (2xx), refused (4xx or a redirect), rate_limited (429), failed (5xx), unreachable (no reply), gone (410).", "webhook", "outcome")
	m.webhookSeconds = timed("webhook_delivery_seconds", "How long attempts to deliver an event to a webhook took.", requestBuckets, "webhook")
	for name := range fact.Types() {
		m.facts.WithLabelValues(name)
	}
	for _, attempt := range []string{attemptFirst, attemptAgain} {
		m.attempts.WithLabelValues(attempt)
	}
	for _, kind := range decide.FindingKinds() {
		m.findings.WithLabelValues(kind)
	}
	for _, kind := range []fact.Kind{fact.KindOrder, fact.KindRenewal} {
		m.settleSeconds.WithLabelValues(string(kind))
		m.eventSeconds.WithLabelValues(string(kind))
	}
	for _, route := range upstream.Routes() {
		m.requestSeconds.WithLabelValues(route)
		m.requestsAtZero(route)
	}
	return m
}

// requestsAtZero creates at 0 the counters that alerts use: requests without a reply, and
// refused writes. Such requests are rare, so an alert must notice the first increase.
func (m *meter) requestsAtZero(route string) {
	for _, outcome := range []string{outcomeUnknown, outcomeNotSent} {
		m.requests.WithLabelValues(route, codeLabel(""), outcome)
	}
	if !strings.HasPrefix(route, http.MethodPost) {
		return
	}
	for _, code := range append(upstream.Codes(), upstream.Code(codeLabel("?"))) {
		if code != upstream.CodeOK && code != upstream.CodeRateLimited {
			m.requests.WithLabelValues(route, string(code), outcomeRefused)
		}
	}
}

// schedule creates a schedule's counters at 0. The first run that skips proxies may be the last
// run before they expire, so an alert must notice the first increase.
func (m *meter) schedule(name string) {
	for _, code := range fact.SweepHeldCodes {
		m.leftOut.WithLabelValues(name, string(code))
	}
}

const (
	outcomeOK          = "ok"
	outcomeRefused     = "refused"
	outcomeRateLimited = "rate_limited"
	outcomeUnknown     = "unknown"
	outcomeNotSent     = "not_sent"
)

func outcomeOf(x upstream.Exchange) string {
	switch {
	case x.Code == string(upstream.CodeRateLimited) || x.HTTPStatus == http.StatusTooManyRequests:
		return outcomeRateLimited
	case x.Code == string(upstream.CodeOK):
		return outcomeOK
	case x.Code != "":
		return outcomeRefused
	case x.Sent:
		return outcomeUnknown
	}
	return outcomeNotSent
}

func (m *meter) request(x upstream.Exchange) {
	m.requests.WithLabelValues(x.Route, codeLabel(x.Code), outcomeOf(x)).Inc()
	seconds := m.requestSeconds.WithLabelValues(x.Route)
	if e, ok := seconds.(prometheus.ExemplarObserver); ok && exemplary(x.TraceID) {
		e.ObserveWithExemplar(x.Took.Seconds(), prometheus.Labels{"trace_id": x.TraceID})
		return
	}
	seconds.Observe(x.Took.Seconds())
}

// exemplary reports whether a trace id fits into an exemplar. OpenMetrics allows 128 characters
// for all labels of an exemplar.
func exemplary(traceID string) bool {
	if traceID == "" || len(traceID) > 64 {
		return false
	}
	for i := range len(traceID) {
		if c := traceID[i]; c <= ' ' || c > '~' {
			return false
		}
	}
	return true
}

// webhook returns a function that counts a webhook's attempts. It creates the counters at 0.
func (m *meter) webhook(name string) func(webhook.Reply) {
	seconds := m.webhookSeconds.WithLabelValues(name)
	for _, outcome := range webhook.Outcomes() {
		m.webhooks.WithLabelValues(name, string(outcome))
	}
	return func(r webhook.Reply) {
		m.webhooks.WithLabelValues(name, string(r.Outcome)).Inc()
		seconds.Observe(r.Took.Seconds())
	}
}

// codeLabel returns the code if the API document has it. It returns "none" for "", and "other"
// for any other code.
func codeLabel(code string) string {
	switch {
	case code == "":
		return "none"
	case upstream.Code(code).Known():
		return code
	}
	return "other"
}

func (m *meter) committed(writes int, took time.Duration) {
	m.commitSeconds.Observe(took.Seconds())
	m.commitWrites.Observe(float64(writes))
}
