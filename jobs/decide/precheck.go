// Checks just before paying: whether the proxies are still due and whether the request
// can be built. limits.go checks the cost.

package decide

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"perennial/ledger/fact"
	"perennial/upstream"
)

// Prechecked holds what was read just before a first attempt.
type Prechecked struct {
	Moment
	// Guarded says that the command states conditions on its proxies, and Seen has a
	// read of each. Otherwise Seen has only the unreadable proxies.
	Guarded bool
	Seen    []Seen
	// Shown says that the provider shows another proxy or the list. An unreadable proxy
	// is then no outage.
	Shown           bool
	DueBefore       *time.Time
	ExpectExpiresAt map[string]time.Time
	// NamesCIDRs says that an item of the order names CIDRs. CIDRField is the API's
	// field for them, "" if none is configured.
	NamesCIDRs bool
	CIDRField  string
}

// Seen is the read of one proxy just before paying.
type Seen struct {
	ProxyID   string
	ExpiresAt *time.Time
	NotFound  bool            // the provider returned proxy_not_found
	Unread    *PrecheckFailed // why the read failed, if the cause is not the account
	// Paid says that a renewal for this expiry has succeeded. If Behind is set, the
	// provider may not show that renewal yet.
	Paid    bool
	Behind  *fact.Renewal
	Retired bool
}

// PrecheckFailed says why a read just before paying failed.
type PrecheckFailed struct {
	Moment
	Code       upstream.Code // "" without an envelope
	HTTPStatus int
	TraceID    string
	Reason     string
	// Took is how long the read took. A read that timed out is not retried at once.
	Took time.Duration
	// Unaskable says that no request can name the proxy. Retrying the read is pointless.
	Unaskable bool
}

// OfOneProxy reports whether neither the account nor the request caused the failure.
// Without a reply it may still be an outage.
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

// Silent reports whether the reply had no envelope and was no HTTP 2xx. If the provider
// shows nothing else either, reading on is pointless.
func (h PrecheckFailed) Silent() bool { return h.Code == "" && h.HTTPStatus/100 != 2 && !h.Unaskable }

// Malformed reports whether a success envelope had unreadable data.
func (h PrecheckFailed) Malformed() bool { return h.Code == upstream.CodeOK }

// Garbled reports whether an HTTP 2xx reply had no envelope. If other proxies can be
// read, the fault is this proxy's; otherwise it may be an outage.
func (h PrecheckFailed) Garbled() bool { return h.Code == "" && h.HTTPStatus/100 == 2 }

// decidePrecheckFailed postpones an unsent attempt. A failure that lasts a week is no
// outage.
func decidePrecheckFailed(op Operation, h PrecheckFailed) Decision {
	if h.Now.Sub(op.AcceptedAt) >= unreadLongest && !op.AcceptedAt.IsZero() && op.Ambiguous == 0 {
		return refusedBefore(op, nil, "unreadable", "what must be read before paying could not be in 7 days, and nothing was sent: "+fact.Bounded(h.Reason))
	}
	wait := previousWait(op) + h.Took + time.Duration(h.Jitter*float64(BackoffFirst))
	d := waiting(op, notExecuted, h.Now.Add(wait), Verdict{
		code: h.Code, TraceID: h.TraceID, Reason: "what must be read before paying could not be: " + fact.Bounded(h.Reason),
	})
	d.Postponed = true
	return d
}

// decidePrechecked leaves out the proxies that need no renewal. It ends an operation
// with no proxies left, or whose request cannot be built.
func decidePrechecked(op Operation, h Prechecked) Decision {
	switch {
	case cannotSay(h.NamesCIDRs, h.CIDRField):
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

// cannotSay reports whether the order names CIDRs but no field for them is configured.
// Without them the provider would choose the addresses.
func cannotSay(namesCIDRs bool, field string) bool { return namesCIDRs && field == "" }

// stillDue splits the read proxies into those still to be renewed and the skipped ones.
// Without a guard, all but the unreadable are renewed.
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

// whyNotDue returns why a proxy is not renewed, "" if it is.
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
		expires = expected // as read when the command was planned
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

// unreadMost is how long the others wait for an unreadable proxy, measured by the wait
// before the next precheck.
const unreadMost = 2 * time.Minute

// AwaitsUnread reports whether the operation still waits for proxies that cannot be read.
func (o Operation) AwaitsUnread() bool { return previousWait(o) < unreadMost }

// leaveUnread leaves out the unreadable proxies, which then do not delay the others.
// While one may still become readable, everything waits (postponed).
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

// leavesOut reports whether a proxy that stays unreadable for some minutes is left out:
// the provider blames that proxy, or shows others. A possible account problem waits:
// several proxies all unreadable, replies without envelopes (for a day at most), or a
// key without the scope.
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
