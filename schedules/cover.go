package schedules

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/sirupsen/logrus"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/schedules/plans"
)

var errMatched = errors.New("a proxy matches")

// MatchesNone returns a warning if a schedule's match selects no listed proxy, for example
// because of a misspelt country. It returns "" if the match selects a proxy, or if no proxy
// is listed.
func MatchesNone(ctx context.Context, f *tables.Fleet, s plans.Schedule, read func(name string) ([]byte, error)) (string, error) {
	if len(s.Match.Set()) == 0 {
		return "", nil
	}
	lists, err := s.Match.ReadLists(read)
	if err != nil {
		return "", err
	}
	fits, listed := s.Match.Filter(lists), 0
	err = f.Staying(ctx, time.Time{}, func(p tables.Proxy) error {
		if listed++; fits.About(p) {
			return errMatched
		}
		return nil
	})
	if errors.Is(err, errMatched) || err == nil && listed == 0 {
		return "", nil
	}
	return fmt.Sprintf("its match fits none of the %d listed proxies: is %s written right?", listed, strings.Join(s.Match.Set(), ", ")), err
}

// Uncovered calls yield for every listed proxy that no schedule renews and that expires after now or
// has no known expiry, except retired proxies. The proxies without an expiry come last.
func Uncovered(ctx context.Context, f *tables.Fleet, now time.Time, all []plans.Schedule, read func(name string) ([]byte, error), yield func(tables.Proxy) error) error {
	c, err := plans.NewCoverage(all, nil, read)
	if err != nil {
		return err
	}
	err = f.Staying(ctx, now, func(p tables.Proxy) error {
		if _, covered := c.Of(p); covered || !c.Needs(p) {
			return nil
		}
		return yield(p)
	})
	if err != nil {
		return err
	}
	return f.WithoutExpiry(ctx, yield)
}

// uncoveredNamed limits how many proxies a listing.uncovered fact lists.
const uncoveredNamed = 20

type uncovered struct {
	*Config

	n    atomic.Pointer[int64] // count of the last complete listing; nil if unknown
	took atomic.Int64          // how long that count took, in nanoseconds
}

// Uncovered repeats a count on every call, unless the last count took longer than recountWithin.
const recountWithin = 100 * time.Millisecond

// countUncovered counts the live proxies that no schedule renews, and logs a count above zero.
// It publishes the count only if the previous listing had such proxies too, because an order's
// proxies may be listed before their labels are booked.
func (s *uncovered) countUncovered(ctx context.Context) {
	n, first, began := new(int64), []tables.Proxy{}, s.Clock()
	err := Uncovered(ctx, s.Ledger.Fleet, s.providerNow(), s.Schedules, s.ReadFile, func(p tables.Proxy) error {
		*n++
		at, _ := slices.BinarySearchFunc(first, p, byExpiry)
		if at < uncoveredNamed {
			first = slices.Insert(first, at, p)
			first = first[:min(len(first), uncoveredNamed)]
		}
		return nil
	})
	s.took.Store(int64(s.Clock().Sub(began)))
	log := s.Log.WithField("account", s.Account)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		s.n.Store(nil)
		log.WithError(err).Warn("the proxies that no schedule renews could not be counted")
		return
	}
	before := s.n.Swap(n)
	if *n > 0 && (before == nil || *before == 0) {
		level := logrus.WarnLevel
		if len(s.Schedules) == 0 { // normal after a first start, when no schedules are configured
			level = logrus.InfoLevel
		}
		log.Logf(level, "no schedule renews %s, such as %.80q: see `perennial proxies list --uncovered`", english.Plural(int(*n), "living proxy", "living proxies"), first[0].ProxyID)
	}
	if err := s.tellUncovered(ctx, before, *n, first); err != nil {
		log.WithError(err).Warn("the proxies that no schedule renews could not be published; the next listing tries again")
	}
}

const (
	lateWithin = 24 * time.Hour
	lateLooked = 2000 // proxies that Late looks at; a fleet with more is in trouble anyway
)

// Late counts the proxies that expire within a day although a schedule should have renewed them: each
// renewal failed, was refused, or was never made. If half of renew_before is less than a day, that
// time applies. Late leaves out proxies that are being renewed or in review. It also leaves out those
// of a schedule whose status gives the reason: it is paused, fails, needs approval, lacks money, its
// run continues, or its first run comes in time. A schedule with keep lets proxies expire on purpose.
//
// first is the first of them to expire.
func (s *statuses) Late(ctx context.Context, all []Status) (n int64, first string, err error) {
	coverage, err := plans.NewCoverage(s.Schedules, nil, s.ReadFile)
	if err != nil {
		return 0, "", nil //nolint:nilerr // a run of the schedule fails and says so
	}
	status := map[string]Status{}
	for _, one := range all {
		status[one.Schedule] = one
	}
	now := s.providerNow()
	page, err := s.Ledger.Fleet.PricedPage(ctx, tables.ExpiryPlace{At: now}, now.Add(lateWithin), lateLooked)
	for _, p := range page {
		late := coverage.State(p, now) == plans.ProxyDue
		for _, of := range coverage.AllOf(p.Proxy) {
			late = late && !status[of.Name].explains(*p.LastsUntil()) && of.Keep.AtLeast == 0 && p.LastsUntil().Before(now.Add(of.RenewBefore/2))
		}
		if late {
			n, first = n+1, cmp.Or(first, p.ProxyID)
		}
	}
	return n, first, err
}

// explains reports whether the status gives the reason why a proxy that was due is not renewed, or
// the schedule's first run comes before the proxy's expiry.
func (s Status) explains(expires time.Time) bool {
	if s.LastSlot == nil && s.NextSlot != nil && s.NextSlot.Before(expires) {
		return true
	}
	return s.State == statePlanned || s.Paused != nil || s.Problem != "" || s.Plan != "" || s.StillOverLimit > 0 || s.Left != nil
}

// byExpiry compares the expiries of proxies. A proxy without an expiry comes last.
func byExpiry(a, b tables.Proxy) int {
	switch {
	case a.ExpiresAt == nil && b.ExpiresAt == nil:
		return 0
	case a.ExpiresAt == nil:
		return 1
	case b.ExpiresAt == nil:
		return -1
	}
	return a.ExpiresAt.Compare(*b.ExpiresAt)
}

// tellUncovered appends the count as a fact if it has fallen to 0, or if the last two counts are
// both above or both below the last published count. It also appends the count if the first of
// the published proxies has expired. It publishes counts above zero at most once a day.
func (s *uncovered) tellUncovered(ctx context.Context, before *int64, n int64, first []tables.Proxy) error {
	last, at, err := s.Ledger.Fleet.LastUncovered(ctx)
	if err != nil {
		return err
	}
	told, now := int64(last.Uncovered), s.Clock()
	switch lost := last.FirstExpiresAt != nil && last.FirstExpiresAt.Before(now); {
	case n == 0 && told > 0:
	case before == nil, min(n, *before) == 0, told > 0 && now.Sub(at) < fact.Day:
		return nil
	case min(n, *before) <= told && max(n, *before) >= told && !lost:
		return nil
	}
	f := fact.ListingUncovered{Uncovered: int(n), ProxyIDs: []string{}}
	for _, p := range first {
		f.ProxyIDs = append(f.ProxyIDs, fact.Bounded(p.ProxyID))
	}
	if n > 0 {
		f.FirstExpiresAt = first[0].ExpiresAt
	}
	return s.Ledger.Write(ctx, func(tx *ledger.Tx) error { return tx.Append(f) })
}

// Uncovered returns how many live proxies no schedule renews. known is false before the
// first complete listing. For a large fleet it returns the count of the last listing. For a
// small fleet it counts again, so that the proxies of a new order are included.
func (s *uncovered) Uncovered(ctx context.Context) (n int64, known bool) {
	listed := s.n.Load()
	if listed == nil {
		return 0, false
	}
	if s.took.Load() > int64(recountWithin) {
		return *listed, true
	}
	err := Uncovered(ctx, s.Ledger.Fleet, s.providerNow(), s.Schedules, s.ReadFile, func(tables.Proxy) error { n++; return nil })
	if err != nil {
		return *listed, true
	}
	return n, true
}

// RenewalOutlook says whether a proxy will be renewed. If several reasons prevent the renewal,
// the outlook has only the first reason.
type RenewalOutlook struct {
	Good        bool       `json:"good" doc:"Whether the proxy is renewed in time, or never needs a renewal."`
	Text        string     `json:"text" doc:"Whether the proxy is renewed, and if not, why, for people; the text may change."`
	OperationID string     `json:"operation_id,omitempty" doc:"The operation that the text mentions."`
	Schedule    string     `json:"schedule,omitempty" doc:"The schedule that renews the proxy."`
	At          *time.Time `json:"at,omitempty" doc:"The next scheduled time that may renew the proxy."`
	LastRun     string     `json:"last_run,omitempty" doc:"Why the last run of the schedule skipped the proxy, if known."`

	barred bool // Text gives the reason, whatever the last run did
}

// RenewalOutlookFrom has the data from which an outlook is derived.
type RenewalOutlookFrom struct {
	Proxy    tables.Proxy
	Listed   bool                  // a listing has shown the proxy
	Gone     bool                  // missing from the last complete listing
	Renewals []tables.ProxyRenewal // renewals of the proxy, latest first
	Paused   string                // why the account sends no renewals; "" if it sends them
	Now      time.Time
	// Coverage is nil if it is unknown, and NoCoverage is the reason. NoCoverage is "" while the
	// coverage is being read.
	Coverage   *plans.Coverage
	NoCoverage string
	// Status returns a schedule's status, or why it is unknown.
	Status func(schedule string) (status Status, problem string)
	// Plan returns a schedule's current plan. If plan is nil, problem is the reason. problem is
	// "" while the plan is being made. Outlook calls Plan only if the plan affects the outlook.
	Plan func(schedule string) (plan *plans.Plan, problem string)
	// LastRun returns a schedule's last run. It returns nil if none is known.
	LastRun func(of plans.Schedule) (*LastRun, error)
}

// Outlook returns a proxy's outlook. Any error is from the ledger.
func (f RenewalOutlookFrom) Outlook(ctx context.Context) (RenewalOutlook, error) {
	if open := f.open(); open != nil && f.Listed {
		out := f.underWay(open)
		if f.Coverage != nil {
			of, _ := f.Coverage.Of(f.Proxy)
			out.Schedule = of.Name
		}
		return out, nil
	}
	switch {
	case !f.Listed:
		return RenewalOutlook{Text: "No listing has shown it: a schedule renews only what the provider lists."}, nil
	case f.Gone:
		return RenewalOutlook{Text: "It is not renewed: the provider does not list it any more."}, nil
	case f.Proxy.Retired:
		return RenewalOutlook{Text: "It is not renewed: it was retired, and no schedule renews it until it is reinstated."}, nil
	case f.Proxy.ExpiresAt == nil:
		return RenewalOutlook{Text: "It is not renewed: its expiry is not known, so it is never due. Compare `perennial proxies get " + f.Proxy.ProxyID + "`."}, nil
	case f.Coverage == nil && f.NoCoverage != "":
		return RenewalOutlook{Text: "Which schedule renews it is not known: " + f.NoCoverage}, nil
	case f.Coverage == nil:
		return RenewalOutlook{Text: "Which schedule renews it is being looked up."}, nil
	}
	covering := f.Coverage.AllOf(f.Proxy)
	if len(covering) == 0 {
		if other, excepted := f.Coverage.Excepting(f.Proxy); excepted {
			return RenewalOutlook{Text: "It is not renewed: it is an exception of the only schedule that would renew it.", Schedule: other.Name}, nil
		}
		return RenewalOutlook{Text: "It is not renewed: no schedule of this account matches it."}, nil
	}
	out, err := f.best(ctx, covering)
	switch {
	case f.Paused != "" && out.Good:
		out = RenewalOutlook{Text: "It is not renewed while nothing is sent: " + f.Paused, Schedule: out.Schedule, LastRun: out.LastRun}
	case f.Paused != "":
		out.Text += " Nothing is sent now: " + f.Paused
	}
	return out, err
}

// best returns the outlook of the first schedule that renews the proxy in time. If none does, it
// returns the outlook of the first schedule.
func (f RenewalOutlookFrom) best(ctx context.Context, covering []plans.Schedule) (best RenewalOutlook, err error) {
	for i, of := range covering {
		out, err := f.by(ctx, of)
		if err == nil && !out.barred {
			err = f.addLastRun(ctx, &out, of)
		}
		if err != nil || out.Good {
			return out, err
		}
		if i == 0 {
			best = out
		}
	}
	return best, nil
}

func (f RenewalOutlookFrom) addLastRun(ctx context.Context, out *RenewalOutlook, of plans.Schedule) error {
	run, err := f.LastRun(of)
	if err == nil && run != nil && run.Skipped(f.Proxy) {
		out.LastRun, err = run.Text(ctx, f.Proxy)
	}
	return err
}

func (f RenewalOutlookFrom) open() *tables.ProxyRenewal {
	for i := range f.Renewals {
		if f.Renewals[i].Open {
			return &f.Renewals[i]
		}
	}
	return nil
}

func (f RenewalOutlookFrom) underWay(open *tables.ProxyRenewal) RenewalOutlook {
	switch {
	case open.InReview:
		return RenewalOutlook{Text: "It is not renewed: an earlier renewal is in review, and whether that was charged is not known: `perennial reviews show` has the evidence.", OperationID: open.OperationID}
	case open.Operation == fact.StateHeld:
		return RenewalOutlook{Text: "It is not renewed: its renewal is on hold: " + open.Reason + ". An operator can release it.", OperationID: open.OperationID}
	case f.Paused != "":
		return RenewalOutlook{Text: "Its renewal waits: " + f.Paused, OperationID: open.OperationID}
	}
	return RenewalOutlook{Good: true, Text: "A renewal of it is in progress.", OperationID: open.OperationID}
}

func (f RenewalOutlookFrom) by(ctx context.Context, of plans.Schedule) (out RenewalOutlook, err error) {
	out.Schedule = of.Name
	barred, retry, err := f.Coverage.Barred(ctx, f.Proxy, f.Now)
	if err != nil {
		return out, err
	}
	due := later(later(f.Proxy.ExpiresAt.Add(-of.RenewBefore), f.Now), retry)
	if slots, _, err := of.Slots(due.Add(-time.Second), 1); err == nil && len(slots) == 1 {
		out.At = &slots[0]
	}
	status, problem := f.Status(of.Name)
	out.barred = barred != ""
	switch {
	case plans.Paid(barred):
		out.At = nil
		f.afterRenewal(&out, of)
	case barred == plans.ReasonPerson || barred == plans.ReasonBackoff:
		f.afterFailures(&out, barred, retry)
	case barred != "":
		out.Text, out.At = "Schedules skip it: "+barred+".", nil
	case status.Paused != nil:
		out.Text, out.At = "It is not renewed while its schedule is paused"+until(status.Paused.Until)+", by "+status.Paused.By+": "+status.Paused.Reason+".", nil
	case status.Problem != "":
		out.Text = "It is not renewed, because the run fails: " + status.Problem + "."
	case due.After(f.Now):
		f.notDue(&out)
	default:
		f.whereDue(&out, status)
	}
	if problem != "" && out.Good {
		out.Text = "Whether its schedule runs is not known (" + problem + "); by its configuration its schedule renews it in time."
	}
	return out, nil
}

// afterFailures describes a proxy that waits, or needs an operator, after renewals that ended without
// renewing it.
func (f RenewalOutlookFrom) afterFailures(out *RenewalOutlook, barred string, retry time.Time) {
	why := ""
	if last := f.lastEnding(); last != nil {
		out.OperationID, why = last.OperationID, " The last one: "+cmp.Or(last.ReasonText(), string(last.State))+"."
	}
	if barred == plans.ReasonPerson {
		out.Text, out.At = "It is not renewed: "+barred+"."+why, nil
		return
	}
	out.Text = "It is not renewed, because its last renewals ended without renewing it." + why + " The first run after " + retry.UTC().Format(time.RFC3339) + " tries it again"
	if out.At != nil {
		out.Text += ": the run of " + out.At.UTC().Format(time.RFC3339)
	}
	out.Text += "."
}

func until(at *time.Time) string {
	if at == nil {
		return ""
	}
	return " until " + at.UTC().Format(time.RFC3339)
}

// afterRenewal describes a proxy whose expiry has not been read since its last renewal ended. If the
// renewal failed, the next run that tries the proxy again is the first after the wait.
func (f RenewalOutlookFrom) afterRenewal(out *RenewalOutlook, of plans.Schedule) {
	ended := slices.IndexFunc(f.Renewals, func(r tables.ProxyRenewal) bool { return !r.Open })
	if last := f.lastEnding(); last != nil && ended >= 0 && f.Renewals[ended].OperationID == last.OperationID {
		out.Text, out.OperationID = "Its last renewal ended without renewing it: "+cmp.Or(last.ReasonText(), string(last.State))+". A schedule waits half an hour after a failure, or less if the proxy expires soon.", last.OperationID
		due := f.Proxy.ExpiresAt.Add(-of.RenewBefore)
		if due.After(f.Now) {
			out.Text = "Its last renewal ended without renewing it: " + cmp.Or(last.ReasonText(), string(last.State)) + ". It is not due before " + due.UTC().Format(time.RFC3339) + "."
		}
		if at := last.SettledAt; at != nil {
			retry := later(later(plans.RetryAt(f.endings(last), *at, *f.Proxy.ExpiresAt), due), f.Now)
			if slots, _, err := of.Slots(retry.Add(-time.Second), 1); err == nil && len(slots) == 1 {
				out.At = &slots[0]
				out.Text += " The run of " + out.At.UTC().Format(time.RFC3339) + " tries it again."
			}
		}
		return
	}
	out.Good, out.Text = true, "It was renewed, and no listing has shown the new expiry yet."
}

func (f RenewalOutlookFrom) lastEnding() *tables.ProxyRenewal {
	for i, r := range f.Renewals {
		if r.State == fact.LineFailed || r.State == fact.LineNotCharged || r.State == fact.LineSkipped {
			return &f.Renewals[i]
		}
	}
	return nil
}

// endings counts the renewals for the same expiry as last that ended without renewing the proxy.
func (f RenewalOutlookFrom) endings(last *tables.ProxyRenewal) (n int) {
	for _, r := range f.Renewals {
		sameExpiry := r.ObservedExpiresAt != nil && last.ObservedExpiresAt != nil && r.ObservedExpiresAt.Equal(*last.ObservedExpiresAt)
		if sameExpiry && (r.State == fact.LineFailed || r.State == fact.LineNotCharged) {
			n++
		}
	}
	return n
}

func (f RenewalOutlookFrom) notDue(out *RenewalOutlook) {
	if out.At != nil && out.At.After(*f.Proxy.ExpiresAt) {
		out.Text = "It is not due yet, and expires before the run of its schedule after that: `perennial schedules run " + out.Schedule + "` renews it when it is due."
		return
	}
	out.Good, out.Text = true, "It is not due yet: its schedule renews it in time."
}

func (f RenewalOutlookFrom) whereDue(out *RenewalOutlook, status Status) {
	plan, problem := f.Plan(status.Schedule)
	if plan != nil {
		for _, left := range plan.LeftOut {
			switch {
			case left.ProxyID != f.Proxy.ProxyID:
				continue
			case left.AwaitsPrice():
				out.Text = "It is due. A run renews it after its first proxies, as far as its budgets allow: " + left.Reason + "."
			default:
				out.Text = "It is due, and a run now would skip it: " + left.Reason + "."
			}
			out.At = nil
			return
		}
	}
	switch {
	case status.State == StateHeld:
		out.Text, out.At = "It is due, and the plan of its schedule needs an approval: `perennial schedules show "+status.Schedule+"`.", nil
	case plan != nil && plan.NeedsApproval:
		out.Text, out.At = "It is due. The plan of the next run will need approval: "+plan.EstimateText()+" exceeds approve_over_cents ("+fact.Amount(plan.ApproveOverCents, plan.Currency)+").", nil
	case problem != "":
		out.Text = "It is due; what its schedule would do is not known: " + problem + "."
	case plan == nil:
		out.Text = "It is due. What its schedule does with it is being worked out."
	case out.At != nil && out.At.After(*f.Proxy.ExpiresAt) && status.Left == nil:
		out.Text = "It is due, and expires before the next run of its schedule: `perennial schedules run " + status.Schedule + "` renews it now."
	default:
		out.Good, out.Text = true, "It is due: the next run renews it."
	}
}
