package decide

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"perennial/ledger/fact"
	"perennial/upstream"
)

// Prechecked has the data that was read just before a first attempt.
type Prechecked struct {
	Moment
	// Guarded says that the command has conditions on its proxies. If it is set, Seen has a read
	// of each proxy. Otherwise Seen has only the proxies that could not be read.
	Guarded bool
	Seen    []Seen
	// Shown says that the provider showed another proxy or the list. If it did, the failure to
	// read a proxy is not an outage.
	Shown           bool
	DueBefore       *time.Time
	ExpectExpiresAt map[string]time.Time
	// NamesCIDRs says that an item of the order has CIDRs. CIDRField is the API's field for them.
	// It is "" if no field is configured.
	NamesCIDRs bool
	CIDRField  string
}

// Seen is the read of one proxy just before a charge.
type Seen struct {
	ProxyID   string
	ExpiresAt *time.Time
	NotFound  bool            // the provider returned proxy_not_found
	Unread    *PrecheckFailed // why the read failed, unless the cause is the account
	// Paid says that a renewal for this expiry has succeeded. If the renewal is so recent that
	// the provider need not show it yet, Behind is that renewal. Otherwise Behind is nil.
	Paid    bool
	Behind  *fact.Renewal
	Retired bool
}

// PrecheckFailed says why a read just before a charge failed.
type PrecheckFailed struct {
	Moment
	Code       upstream.Code // "" if the reply had no envelope
	HTTPStatus int
	TraceID    string
	Reason     string
	// Took is how long the read took. It is added to the wait before the next read.
	Took time.Duration
	// Unaskable says that no request can contain the proxy id, so a retry of the read would
	// fail too.
	Unaskable bool
}

// OfOneProxy reports whether the failure may concern one proxy, rather than the account or
// the request rate. It is also true if no reply came, although the cause may be an outage.
func (h PrecheckFailed) OfOneProxy() bool {
	if h.HTTPStatus == http.StatusTooManyRequests {
		return false
	}
	switch h.Code {
	case upstream.CodeRateLimited, upstream.CodeInvalidSignature, upstream.CodeStaleTimestamp, upstream.CodeAPIKeyRevoked:
		return false
	}
	return true
}

// Silent reports whether the read got neither an envelope nor an HTTP 2xx status. If the provider
// shows no other proxy, further reads are pointless.
func (h PrecheckFailed) Silent() bool { return h.Code == "" && h.HTTPStatus/100 != 2 && !h.Unaskable }

// Malformed reports whether the envelope said success but its data could not be read.
func (h PrecheckFailed) Malformed() bool { return h.Code == upstream.CodeOK }

// Garbled reports whether an HTTP 2xx reply had no envelope. If other proxies can be read,
// the fault concerns this proxy; otherwise it may be an outage.
func (h PrecheckFailed) Garbled() bool { return h.Code == "" && h.HTTPStatus/100 == 2 }

// decidePrecheckFailed postpones an attempt whose precheck failed. After a week it refuses
// an operation that was never sent, because an outage does not last that long.
func decidePrecheckFailed(op Operation, h PrecheckFailed) Decision {
	old := h.Now.Sub(op.AcceptedAt) >= unreadLongest && !op.AcceptedAt.IsZero() && op.Ambiguous == 0
	if old && previousWait(op) == backoffMost { // reads have failed repeatedly; a command may also have waited in a pause
		return refusedBefore(op, nil, "unreadable", "what must be read before paying could not be in 7 days, and nothing was sent: "+fact.Bounded(h.Reason))
	}
	wait := previousWait(op) + h.Took + time.Duration(h.Jitter*float64(BackoffFirst))
	d := waiting(op, notExecuted, h.Now.Add(wait), Verdict{
		code: h.Code, TraceID: h.TraceID, Reason: "what must be read before paying could not be: " + fact.Bounded(h.Reason),
	})
	d.Postponed = true
	return d
}

// decidePrechecked leaves out the proxies that need no renewal. It ends an operation that
// has no proxies left. It puts an order on hold if its request cannot be built.
func decidePrechecked(op Operation, h Prechecked) Decision {
	switch {
	case cannotBuild(h.NamesCIDRs, h.CIDRField):
		return holdBack(op, nil, fact.CommandHeld{
			Code: fact.HeldNoCIDRField, Reason: "it names CIDRs and the account has no cidr_field any more: set it again and `perennial release` it, or `perennial cancel` it",
		})
	case !h.Guarded && len(h.Seen) == 0:
		return Decision{Send: true, ProxyIDs: op.ProxyIDs}
	}
	ids, skipped := stillDue(op, h)
	unread, postponed := leaveUnread(op, h)
	if postponed != nil {
		return decidePrecheckFailed(op, *postponed)
	}
	leftOut := fact.Skipped(op.Ref(""), append(skipped, unread...), "for a reason that is not named here: too many differ")
	switch {
	case len(ids) == 0 && len(unread) > 0:
		return refusedBefore(op, leftOut, "nothing_due", "what is left of its proxies cannot be read at the provider: nothing was sent")
	case len(ids) == 0:
		return refusedBefore(op, leftOut, "nothing_due", "none of its proxies is due any more: nothing was sent")
	case op.Ambiguous > 0 && len(ids) < len(op.ProxyIDs):
		return changedSince(op)
	}
	return Decision{Facts: leftOut, Send: true, ProxyIDs: ids}
}

// cannotBuild reports whether the order has CIDRs but no field for them is configured.
// Without the field the provider would choose the addresses.
func cannotBuild(namesCIDRs bool, field string) bool { return namesCIDRs && field == "" }

// stillDue splits the proxies into proxies to renew and skipped proxies. An unguarded command
// renews all proxies except those that could not be read.
func stillDue(op Operation, h Prechecked) (ids []string, skipped []fact.SkippedProxy) {
	if !h.Guarded {
		unread := unreadOf(h.Seen)
		return slices.DeleteFunc(slices.Clone(op.ProxyIDs), func(id string) bool {
			return slices.ContainsFunc(unread, func(s Seen) bool { return s.ProxyID == id })
		}), nil
	}
	for _, s := range h.Seen {
		if s.Unread != nil {
			continue
		}
		if code, why := whyNotDue(h, s); code != "" {
			skipped = append(skipped, fact.SkippedProxy{ProxyID: s.ProxyID, Code: code, Reason: why, ExpiresAt: s.ExpiresAt})
			continue
		}
		ids = append(ids, s.ProxyID)
	}
	return ids, skipped
}

func whyNotDue(h Prechecked, s Seen) (code fact.SkipCode, why string) {
	if s.NotFound {
		return fact.SkipNotFound, "the provider does not know it"
	}
	if s.ExpiresAt == nil {
		return fact.SkipNoExpiry, "it has no expiry: it is never due"
	}
	expires := *s.ExpiresAt
	if expected, named := h.ExpectExpiresAt[s.ProxyID]; named {
		if !fact.SameExpiry(expected, expires) {
			return fact.SkipMoved, "its expiry has moved since it was planned"
		}
		expires = expected // the expiry as read when the command was planned
	}
	switch {
	case h.DueBefore != nil && expires.After(*h.DueBefore):
		return fact.SkipNotDue, "it is not due before " + h.DueBefore.Format(time.RFC3339)
	case s.Paid && s.Behind == nil:
		return fact.SkipRenewed, "a renewal for this expiry has succeeded before"
	case s.Paid:
		return fact.SkipNotShown, fmt.Sprintf("a renewal of %d days succeeded at %s, and the provider may not show it yet", s.Behind.DurationDays, s.Behind.SettledAt.UTC().Format(time.RFC3339))
	case s.Retired:
		return fact.SkipRetired, "it was retired"
	}
	return "", ""
}

// unreadMost limits how long the other proxies wait for a proxy that cannot be read. They
// stop waiting when the operation's next wait would be unreadMost or longer.
const unreadMost = 2 * time.Minute

// AwaitsUnread reports whether the operation still waits for proxies that cannot be read.
func (o Operation) AwaitsUnread() bool { return previousWait(o) < unreadMost }

// leaveUnread leaves out the proxies that could not be read, so that they do not delay the
// others. While one of them may still become readable, the whole operation waits, and postponed
// is the failure of that proxy.
func leaveUnread(op Operation, h Prechecked) (skipped []fact.SkippedProxy, postponed *PrecheckFailed) {
	unread := unreadOf(h.Seen)
	for _, s := range unread {
		if !leavesOut(op, h, *s.Unread, len(unread) < len(op.ProxyIDs)) {
			return nil, s.Unread
		}
		skipped = append(skipped, fact.SkippedProxy{ProxyID: s.ProxyID, Code: fact.SkipUnreadable, Reason: fact.Bounded(s.Unread.Reason)})
	}
	return skipped, nil
}

// leavesOut reports whether a proxy that could not be read is left out. The operation first waits
// some minutes, unless the id cannot be used in a request. After that, the proxy is left out if
// the failure concerns that proxy, or if the provider shows others. It is not left out if the
// cause may be the account. The account may be the cause if several proxies all failed, or if
// replies had no envelope (for a day at most). It may also be the cause if the key lacks the
// scope and no proxy could be read.
func leavesOut(op Operation, h Prechecked, unread PrecheckFailed, others bool) bool {
	switch {
	case unread.Unaskable:
		return true
	case op.AwaitsUnread():
		return false
	case unread.Code == upstream.CodeProxyEndpointUnavailable, unread.Malformed(), unread.Garbled() && h.Now.Sub(op.AcceptedAt) >= stalled:
		return true
	case unread.Code == upstream.CodeInsufficientScope:
		return others
	}
	return h.Shown && (others || len(op.ProxyIDs) == 1)
}

func unreadOf(seen []Seen) (unread []Seen) {
	for _, s := range seen {
		if s.Unread != nil {
			unread = append(unread, s)
		}
	}
	return unread
}
