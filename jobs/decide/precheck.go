// What must be true at the moment of paying: whether the proxies are still due and
// whether the request can be written. What it may cost is in limits.go.

package decide

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"perennial/ledger/fact"
	"perennial/upstream"
)

// Prechecked says that what a first attempt depends on was read just before paying.
type Prechecked struct {
	Moment
	// Guarded: the command names what its proxies must still be, and Seen is what
	// was read of each. Otherwise Seen has only those that cannot be read.
	Guarded bool
	Seen    []Seen
	// Shown: the provider shows something, another proxy or the list, so that what cannot
	// be read is no outage.
	Shown           bool
	DueBefore       *time.Time
	ExpectExpiresAt map[string]time.Time
	// NamesCIDRs: an item of the order does. CIDRField is the API's name for them,
	// "" when the account has none.
	NamesCIDRs bool
	CIDRField  string
}

// Seen is what was read of one proxy just before paying.
type Seen struct {
	ProxyID   string
	ExpiresAt *time.Time
	NotFound  bool            // the provider says proxy_not_found
	Unread    *PrecheckFailed // the read failed for no reason of the account's
	// Paid: a renewal for this expiry has succeeded, or, where Behind is set, one
	// that the provider may not show yet.
	Paid    bool
	Behind  *fact.Renewal
	Retired bool
}

// PrecheckFailed says that what must be read just before paying could not be.
type PrecheckFailed struct {
	Moment
	Code       upstream.Code // "" when no envelope came
	HTTPStatus int
	TraceID    string
	Reason     string
	// Took is how long the read took: one that times out is not repeated at once.
	Took time.Duration
	// Unaskable says that no request can name the proxy, so that no later one will.
	Unaskable bool
}

// OfOneProxy reports whether the read of a proxy failed for no reason that is the
// account's or the request's. Without a reply it may still be an outage.
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

// Silent reports whether no envelope came, nor any other HTTP 2xx: nothing further need be
// read of a provider that shows nothing else.
func (h PrecheckFailed) Silent() bool { return h.Code == "" && h.HTTPStatus/100 != 2 && !h.Unaskable }

// Malformed reports whether the read was answered with a success whose data could not be
// read.
func (h PrecheckFailed) Malformed() bool { return h.Code == upstream.CodeOK }

// Garbled reports whether HTTP 2xx came with a body that is no envelope. Of one proxy among
// others that can be read it is that proxy's; else it may be an outage.
func (h PrecheckFailed) Garbled() bool { return h.Code == "" && h.HTTPStatus/100 == 2 }

// decidePrecheckFailed postpones an attempt: nothing was sent. An outage ends, and what lasts
// for a week is none.
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

// decidePrechecked leaves out the proxies that are not to be renewed, and stops an
// operation of which nothing is left or that cannot be written.
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

// cannotSay reports whether the order names CIDRs while the configuration has no field
// name for them any more. Without them the provider would choose the addresses.
func cannotSay(namesCIDRs bool, field string) bool { return namesCIDRs && field == "" }

// stillDue divides what was read into the proxies that are still to be renewed and the
// others. Of a command without a guard, all that were not unreadable are.
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

// whyNotDue says why a proxy is not to be renewed, "" when it is.
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
		expires = expected // as it was read where the command was planned
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

// unreadMost is how long the proxies of an operation wait for one of them that the
// provider does not show, as the wait before the next precheck.
const unreadMost = 2 * time.Minute

// AwaitsUnread reports whether the operation still waits for proxies that cannot be read.
func (o Operation) AwaitsUnread() bool { return previousWait(o) < unreadMost }

// leaveUnread leaves out the proxies that cannot be read, so that they do not hold up the
// others; where one of them may be read later, everything waits (postponed).
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

// leavesOut reports whether a proxy that has not been read for some minutes is left out:
// the provider says that it is the proxy, or shows others. What may be the account waits:
// several proxies of which none can be read, a day at most where replies come and are no
// envelopes, and a key without the scope.
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
