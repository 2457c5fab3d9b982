// The past states that reads show under the mood lagging_reads.

package sandbox

import (
	"slices"
	"time"
)

// past is what something was before each of its last changes, as far back as a
// lagging read may look. It is kept only under that mood, and in memory.
type past[T any] []before[T]

type before[T any] struct {
	until time.Time // when it changed
	was   T
}

// keep remembers what it was until now.
func (p past[T]) keep(now time.Time, was T) past[T] {
	p = slices.DeleteFunc(p, func(b before[T]) bool { return now.Sub(b.until) > maxLag })
	if n := len(p); n > 0 && p[n-1].until.Equal(now) {
		return p // a step of the same change
	}
	return append(p, before[T]{now, was})
}

// asOf is what it was at a moment; false when that is what it is.
func (p past[T]) asOf(at time.Time) (was T, found bool) {
	if !at.IsZero() {
		for _, b := range p {
			if b.until.After(at) {
				return b.was, true
			}
		}
	}
	return was, false
}

// proxyWas is what changes about a proxy.
type proxyWas struct {
	exists  bool
	expires time.Time
}

// orderWas is what changes about an order.
type orderWas struct {
	exists     bool
	stage      orderStage
	delivered  int64
	refundedAt time.Time
}

// The functions below keep what a lagging read may show. They are called, with the lock
// held, before a change; those named Appears before there is such a proxy or order.

func (s *Server) proxyAppears(p *proxy) { s.keepProxy(p, proxyWas{expires: p.expires}) }

func (s *Server) proxyChanges(p *proxy) {
	s.keepProxy(p, proxyWas{exists: true, expires: p.expires})
}

func (s *Server) keepProxy(p *proxy, was proxyWas) {
	if s.moods.has(MoodLaggingReads) {
		p.past = p.past.keep(s.now(), was)
	}
}

func (s *Server) orderAppears(o *order) { s.keepOrder(o, orderWas{}) }

func (s *Server) orderChanges(o *order) {
	s.keepOrder(o, orderWas{exists: true, stage: o.stage, delivered: o.delivered, refundedAt: o.refundedAt})
}

func (s *Server) keepOrder(o *order, was orderWas) {
	if s.moods.has(MoodLaggingReads) {
		o.past = o.past.keep(s.now(), was)
	}
}

func (s *Server) balanceChanges(sp *space) {
	if s.moods.has(MoodLaggingReads) {
		sp.past = sp.past.keep(s.now(), sp.balance)
	}
}

// asOf is the proxy as a lagging read shows it; nil when it was not there yet.
func (p *proxy) asOf(at time.Time) *proxy {
	was, found := p.past.asOf(at)
	switch {
	case !found:
		return p
	case !was.exists:
		return nil
	}
	shown := *p
	shown.expires = was.expires
	return &shown
}

// asOf is the order as a lagging read shows it; nil when it was not there yet.
func (o *order) asOf(at time.Time) *order {
	was, found := o.past.asOf(at)
	switch {
	case !found:
		return o
	case !was.exists:
		return nil
	}
	shown := *o
	shown.stage, shown.delivered, shown.refundedAt = was.stage, was.delivered, was.refundedAt
	if shown.stage != stageCompleted {
		shown.proxies = nil
	}
	return &shown
}

// balanceAsOf is the balance as a lagging read shows it.
func (sp *space) balanceAsOf(at time.Time) int64 {
	if was, found := sp.past.asOf(at); found {
		return was
	}
	return sp.balance
}
