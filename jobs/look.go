package jobs

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"perennial/ledger"
	"perennial/upstream"
)

// Just before paying, proxies are read again: a person may have renewed them by
// hand. For an operation of more than readEach, which would take as many requests
// as it renews proxies, what was read or listed within freshFor serves.
const (
	readEach = 10
	freshFor = 10 * time.Minute
)

// presend is what the last look before a first send found.
type presend struct {
	ids           []string // what is still to be renewed
	skipped       []ledger.SkippedProxy
	observed      map[string]time.Time
	unknown       []string // of ids, those of which a read said proxy_not_found
	estimateCents int64
	unpriced      bool        // what it costs is not known, and counts as nothing in the estimate
	body          []byte      // frozen by an earlier attempt; nil: made from ids
	stop          ledger.Fact // the operation goes no further
}

// leftOut is the fact of the proxies that are not paid for, and why; none for none.
func (p presend) leftOut(op Operation) []ledger.Fact {
	return ledger.Skipped(op.ref(""), p.skipped, "for a reason that is not named here: too many differ")
}

// unreadError says that the provider did not tell what must be known before
// paying.
type unreadError struct {
	what string
	err  error
}

func (e *unreadError) Error() string { return e.what + ": " + e.err.Error() }
func (e *unreadError) Unwrap() error { return e.err }

// putOff is what becomes of an operation whose look before paying failed: under a
// pause it waits with the others, else by itself, longer each time.
func (r *Runner) putOff(ctx context.Context, j *job, failure error) error {
	if errors.Is(failure, errHeld) || r.pauses.blocked(j.lane) {
		r.ready.again(j)
		return nil
	}
	unread, ok := errors.AsType[*unreadError](failure)
	if !ok || ctx.Err() != nil {
		return failure
	}
	h := LookFailed{Moment: r.moment(), Reason: unread.Error()}
	if failed, ok := errors.AsType[*upstream.Error](failure); ok {
		h.Code, h.TraceID = failed.Code, failed.TraceID
	}
	return r.conclude(ctx, j, Decide(j.op, h))
}

// look reads again what must be true at the moment of paying: that the proxies
// are still due, that the ceiling and the day's limit hold.
func (r *Runner) look(ctx context.Context, j *job) (presend, error) {
	p := presend{ids: j.op.ProxyIDs}
	if j.cmd.Guarded() {
		if err := r.lookAtProxies(ctx, j, &p); err != nil || p.stop != nil {
			return p, err
		}
	} else if err := r.observe(ctx, j, &p); err != nil {
		return p, err
	}
	if p.stop = r.cannotSay(j); p.stop != nil {
		return p, nil
	}
	if j.cmd.MaxTotalCents == 0 && r.DailyLimitCents == 0 {
		return p, nil
	}
	if err := r.estimate(ctx, j, &p); err != nil || p.stop != nil {
		return p, err
	}
	if err := r.underCeiling(ctx, j, &p); err != nil || p.stop != nil {
		return p, err
	}
	err := r.underDailyLimit(ctx, j, &p)
	return p, err
}

// cannotSay holds an order whose CIDRs have no field any more: without them the
// provider would choose addresses by chance.
func (r *Runner) cannotSay(j *job) ledger.Fact {
	if r.CIDRField != "" || !slices.ContainsFunc(j.cmd.Items, func(i Item) bool { return len(i.CIDRs) > 0 }) {
		return nil
	}
	return ledger.CommandHeld{
		Ref: j.op.ref(""), Reason: "it names CIDRs and the account has no cidr_field any more: set it again and `perennial release` it, or `perennial cancel` it",
	}
}

// lookAtProxies leaves out what is no longer due.
func (r *Runner) lookAtProxies(ctx context.Context, j *job, p *presend) error {
	p.ids, p.observed = nil, map[string]time.Time{}
	unread := map[string]error{}
	for _, id := range j.op.ProxyIDs {
		expires, why, err := r.stillDue(ctx, j, id)
		if refusesThisProxy(err) {
			unread[id] = err
			continue
		}
		if err != nil {
			return err
		}
		if why != "" {
			p.skipped = append(p.skipped, ledger.SkippedProxy{ProxyID: id, Reason: why, ExpiresAt: expires})
			continue
		}
		p.ids = append(p.ids, id)
		p.observed[id] = *expires
	}
	if err := r.leaveUnread(j, p, unread); err != nil {
		return err
	}
	switch {
	case len(p.ids) == 0 && len(unread) > 0:
		p.stop = rejectedFact(j.op, "nothing_due", "what is left of its proxies cannot be read at the provider: nothing was sent")
	case len(p.ids) == 0:
		p.stop = rejectedFact(j.op, "nothing_due", "none of its proxies is due any more: nothing was sent")
	}
	return nil
}

// unreadMost is how long the proxies of an operation wait for one of them that the
// provider does not show, as the wait before the next look.
const unreadMost = 2 * time.Minute

// leaveUnread leaves out the proxies that the provider has not shown for some
// minutes: they do not hold up the others. Until then, and
// where none of several can be read and the provider does not say that it is the
// proxies, everything waits (the error).
func (r *Runner) leaveUnread(j *job, p *presend, unread map[string]error) error {
	alone := len(unread) < len(j.op.ProxyIDs)
	for _, id := range slices.Sorted(maps.Keys(unread)) {
		err := unread[id]
		if previousWait(j.op) < unreadMost || !alone && !errors.Is(err, upstream.CodeProxyEndpointUnavailable) {
			return err
		}
		p.skipped = append(p.skipped, ledger.SkippedProxy{ProxyID: id, Reason: bounded(err.Error())})
	}
	return nil
}

// refusesThisProxy reports whether a read was answered, and refused for no reason
// that is the account's or the key's.
func refusesThisProxy(err error) bool {
	failed, ok := errors.AsType[*upstream.Error](err)
	if !ok || failed.Code == "" || failed.HTTPStatus == http.StatusTooManyRequests {
		return false
	}
	switch failed.Code {
	case upstream.CodeRateLimited, upstream.CodeInvalidSignature, upstream.CodeStaleTimestamp, upstream.CodeReplayedNonce,
		upstream.CodeInsufficientScope, upstream.CodeAPIKeyRevoked:
		return false
	}
	return true
}

func rejectedFact(op Operation, code, reason string) ledger.Fact {
	return rejected(op, verdict{code: upstream.Code(code), reason: reason}).Facts[0]
}

// stillDue reads one proxy and says why it is not to be renewed, "" when it is.
func (r *Runner) stillDue(ctx context.Context, j *job, id string) (expires *time.Time, why string, err error) {
	read := r.readProxy
	if len(j.op.ProxyIDs) > readEach {
		read = r.current
	}
	proxy, err := read(ctx, j.turn(), id)
	if errors.Is(err, upstream.CodeProxyNotFound) {
		return nil, "the provider does not know it", nil
	}
	if err != nil {
		return nil, "", err
	}
	expires = proxy.ExpiresAt
	if expires == nil {
		return nil, "it has no expiry: it is never due", nil
	}
	if expected, ok := j.cmd.ExpectExpiresAt[id]; ok && !ledger.Expiry(&expected).Equal(*expires) {
		return expires, "its expiry has moved since it was planned", nil
	}
	if j.cmd.DueBefore != nil && expires.After(*j.cmd.DueBefore) {
		return expires, "it is not due before " + j.cmd.DueBefore.Format(time.RFC3339), nil
	}
	if why, err := r.paidAlready(ctx, id, *expires); err != nil || why != "" {
		return expires, why, err
	}
	retired, err := r.Ledger.Retired(ctx, id)
	if retired {
		why = "it was retired"
	}
	return expires, why, err
}

// current is what the provider says of a proxy now, or said a moment ago.
func (r *Runner) current(ctx context.Context, priority Priority, id string) (ledger.Proxy, error) {
	known, err := r.Ledger.Proxy(ctx, id)
	age := r.clock.Now().Sub(known.SeenAt)
	if err == nil && age >= 0 && age < freshFor {
		settled, err := r.Ledger.SettledSince(ctx, id, known.SeenAt)
		if err != nil || !settled {
			return known, err
		}
	}
	return r.readProxy(ctx, priority, id)
}

func (r *Runner) readProxy(ctx context.Context, priority Priority, id string) (ledger.Proxy, error) {
	if err := r.passNow(ctx, priority); err != nil {
		return ledger.Proxy{}, err
	}
	read, err := r.Provider.Proxy(ctx, id)
	r.Read(ctx, time.Time{}, err)
	if err != nil {
		return ledger.Proxy{}, &unreadError{"proxy " + id, err}
	}
	known := Observed(read, r.clock.Now())
	return known, r.Ledger.Write(ctx, func(tx *ledger.Tx) error { return tx.Observe(0, known) })
}

// Observed is a proxy as the ledger stores it.
func Observed(p upstream.Proxy, at time.Time) ledger.Proxy {
	return ledger.Proxy{
		ProxyID: p.ProxyID, Status: p.Status, IPType: p.IPType, Protocol: p.Protocol, CountryCode: p.CountryCode, Region: p.Region,
		LineName: p.LineName, StartsAt: p.StartsAt, ExpiresAt: ledger.Expiry(p.ExpiresAt), SeenAt: at,
	}
}
