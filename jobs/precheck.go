package jobs

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/upstream"
)

// readEach is the largest number of proxies that are always read one by one. For a larger
// operation this would take too many requests, so it uses data that is at most
// tables.FreshFor old.
const readEach = 10

type checker struct {
	*Config
	clock    *clock
	pulse    *pulse
	pricing  *pricing
	link     *link
	readable func() error // returns an error if reads for operators are not allowed now

	listing sync.Mutex // held while the proxy list is read for an operation
}

// checked is the result of the precheck before a first send.
type checked struct {
	ids      []string // still to be renewed
	leftOut  []fact.Fact
	observed map[string]time.Time
	unknown  []string      // proxies for which a read returned proxy_not_found
	priced   decide.Priced // inputs of the estimate; zero if the operation was not priced
	estimate fact.Cents
	body     []byte // the body of an earlier attempt; nil if it is made from ids
}

// unreadError says that data required before a charge could not be read.
type unreadError struct {
	what string
	err  error
	took time.Duration
}

func (e *unreadError) Error() string { return e.what + ": " + e.err.Error() }
func (e *unreadError) Unwrap() error { return e.err }

// postpone delays an operation after a failed precheck. If a pause is in force, the operation is
// queued again. Otherwise the operation waits. Each failure makes the wait longer.
func (a *attempts) postpone(ctx context.Context, j *job, failure error) error {
	if errors.Is(failure, errThrottled) || a.pauses.blocked(j.lane) {
		a.ready.requeue(j)
		return nil
	}
	unread, ok := errors.AsType[*unreadError](failure)
	if !ok || ctx.Err() != nil {
		return failure
	}
	return a.stop(ctx, j, decide.Decide(j.op, a.checker.precheckFailed(unread)))
}

func (c *checker) precheckFailed(unread *unreadError) decide.PrecheckFailed {
	h := decide.PrecheckFailed{Moment: c.link.moment(), Reason: unread.Error(), Took: max(0, unread.took), Unaskable: errors.Is(unread, upstream.ErrBadID)}
	if failed, ok := errors.AsType[*upstream.Error](unread); ok {
		h.Code, h.HTTPStatus, h.TraceID = failed.Code, failed.HTTPStatus, failed.TraceID
	}
	return h
}

// precheck checks again that the proxies are still due and that the command's limit and the
// daily limit allow the cost.
func (c *checker) precheck(ctx context.Context, j *job, p *checked) (decide.Decision, error) {
	d, err := c.precheckProxies(ctx, j, p)
	if err != nil || !d.Send || j.cmd.MaxTotalCents == 0 && c.DailyLimitCents == 0 {
		return d, err
	}
	return c.pricing.price(ctx, j, p)
}

// precheckProxies reads the proxies, because an operator may have renewed them by hand. For a
// guarded command it reads each proxy and leaves out the proxies that are no longer due. For an
// unguarded command it reads only proxies whose expiry is unknown.
func (c *checker) precheckProxies(ctx context.Context, j *job, p *checked) (d decide.Decision, err error) {
	h := decide.Prechecked{
		Guarded: j.cmd.Guarded(), DueBefore: j.cmd.DueBefore, ExpectExpiresAt: j.cmd.ExpectExpiresAt,
		NamesCIDRs: j.cmd.NamesCIDRs(), CIDRField: c.CIDRField,
	}
	if h.Guarded {
		err = c.readSeen(ctx, j, &h)
	} else {
		err = c.observe(ctx, j, p, &h)
	}
	if err != nil {
		return d, err
	}
	h.Moment = c.link.moment()
	d = decide.Decide(j.op, h)
	p.ids, p.leftOut = d.ProxyIDs, d.Facts
	if h.Guarded {
		p.observed = expiriesOf(h.Seen, p.ids)
	}
	return d, nil
}

func expiriesOf(seen []decide.Seen, ids []string) map[string]time.Time {
	observed := make(map[string]time.Time, len(ids))
	for _, s := range seen {
		if s.ExpiresAt != nil && slices.Contains(ids, s.ProxyID) {
			observed[s.ProxyID] = *s.ExpiresAt
		}
	}
	return observed
}

// cannotBuild returns the fact to record if the operation's request cannot be built. It returns
// nil if the request can be built.
func (c *checker) cannotBuild(j *job) fact.Fact {
	if d := decide.Decide(j.op, decide.Prechecked{NamesCIDRs: j.cmd.NamesCIDRs(), CIDRField: c.CIDRField}); !d.Send {
		return d.Facts[0]
	}
	return nil
}

func (c *checker) readSeen(ctx context.Context, j *job, h *decide.Prechecked) error {
	for _, id := range j.op.ProxyIDs {
		s, err := c.readOne(ctx, j, id)
		unread, failed := errors.AsType[*unreadError](err)
		switch {
		case failed:
			err = c.noteUnread(ctx, j, h, id, unread)
		case err == nil:
			h.Seen, h.Shown = append(h.Seen, s), h.Shown || !s.NotFound
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// noteUnread adds an unreadable proxy to h. It returns the error if the cause concerns the
// account or may be an outage. The remaining proxies need not be tried in that case.
func (c *checker) noteUnread(ctx context.Context, j *job, h *decide.Prechecked, id string, unread *unreadError) error {
	failed := c.precheckFailed(unread)
	if ctx.Err() != nil || !failed.OfOneProxy() {
		return unread
	}
	first := !slices.ContainsFunc(h.Seen, func(s decide.Seen) bool { return s.Unread != nil && !s.Unread.Unaskable })
	if first && !h.Shown && !failed.Unaskable && !j.op.AwaitsUnread() {
		h.Shown = c.listShows(ctx, j)
	}
	if failed.Silent() && (!h.Shown || j.op.AwaitsUnread()) {
		return unread
	}
	h.Seen = append(h.Seen, decide.Seen{ProxyID: id, Unread: &failed})
	return nil
}

func (c *checker) listShows(ctx context.Context, j *job) bool {
	if c.link.passNow(ctx, j.turn()) != nil {
		return false
	}
	page, err := c.Provider.ProxiesPage(ctx, upstream.PageRequest{Size: 1})
	c.link.Read(ctx, page.ServerTime, err)
	return err == nil
}

func (c *checker) readOne(ctx context.Context, j *job, id string) (decide.Seen, error) {
	read, s := c.readProxy, decide.Seen{ProxyID: id}
	if len(j.op.ProxyIDs) > readEach {
		read = c.current
	}
	proxy, err := read(ctx, j, id)
	if errors.Is(err, upstream.CodeProxyNotFound) {
		s.NotFound = true
		return s, nil
	}
	if s.ExpiresAt = proxy.ExpiresAt; err != nil || s.ExpiresAt == nil {
		return s, err
	}
	if s.Paid, s.Behind, err = c.Ledger.Fleet.PaidFor(ctx, id, *s.ExpiresAt, c.clock.Now()); err != nil {
		return s, err
	}
	s.Retired, err = c.Ledger.Fleet.Retired(ctx, id)
	return s, err
}

func (c *checker) current(ctx context.Context, j *job, id string) (tables.Proxy, error) {
	known, err := c.Ledger.Fleet.Proxy(ctx, id)
	age := c.clock.Now().Sub(known.SeenAt)
	unlisted := known.UnlistedAt != nil && !known.SeenAt.After(*known.UnlistedAt)
	if err == nil && age >= 0 && age < tables.FreshFor && !unlisted {
		settled, err := c.Ledger.Operations.SettledSince(ctx, id, known.SeenAt)
		if err != nil || !settled {
			return known, err
		}
	}
	return c.readProxy(ctx, j, id)
}

// readProxy reads one proxy at the provider. If the operation no longer waits for unreadable
// proxies, the read has a shorter timeout, because every one of its reads may hang.
func (c *checker) readProxy(ctx context.Context, j *job, id string) (tables.Proxy, error) {
	if err := c.link.passNow(ctx, j.turn()); err != nil {
		return tables.Proxy{}, err
	}
	at, limited, cancel := c.clock.Now(), ctx, context.CancelFunc(func() {})
	if !j.op.AwaitsUnread() {
		limited, cancel = context.WithTimeout(ctx, readTimeout)
	}
	read, err := c.Provider.Proxy(limited, id)
	cancel()
	c.link.Read(ctx, time.Time{}, err)
	c.noteRead(ctx, j, id, err)
	if errors.Is(err, upstream.CodeProxyNotFound) {
		if err := c.Ledger.Write(ctx, func(tx *ledger.Tx) error { return tx.Gone(id) }); err != nil {
			return tables.Proxy{}, err
		}
	}
	if err != nil {
		return tables.Proxy{}, &unreadError{"proxy " + id, err, c.clock.Now().Sub(at)}
	}
	known := Observed(read, at)
	return known, c.Ledger.Write(ctx, func(tx *ledger.Tx) error { return tx.Observe(0, known) })
}

// noteRead records whether proxies can be read. It ignores failures of unguarded operations,
// because such operations do not require a key with read permission.
func (c *checker) noteRead(ctx context.Context, j *job, id string, err error) {
	failed, replied := errors.AsType[*upstream.Error](err)
	scope := errors.Is(err, upstream.CodeInsufficientScope)
	switch {
	case err == nil, replied && failed.Code != "" && !scope:
		c.pulse.ended(readBefore, c.Clock())
	case ctx.Err() != nil, !j.cmd.Guarded(), errors.Is(err, upstream.ErrBadID):
	case scope:
		c.pulse.left(readBefore, "", err.Error(), c.Clock(), 0)
	default:
		c.pulse.left(readBefore, id, err.Error(), c.Clock(), 0)
	}
}

// Observed converts a proxy to the ledger's form. at is the time of the read.
func Observed(p upstream.Proxy, at time.Time) tables.Proxy {
	return tables.Proxy{
		ProxyID: p.ProxyID, Status: p.Status, IPType: p.IPType, Protocol: p.Protocol, CountryCode: p.CountryCode, Region: p.Region,
		LineName: p.LineName, StartsAt: p.StartsAt, ExpiresAt: fact.Expiry(p.ExpiresAt), SeenAt: at,
	}
}
