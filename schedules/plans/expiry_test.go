package plans

import (
	"testing"
	"time"

	"perennial/jobs/command"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// A plan accepts exactly the expiries that a command may contain, in every notation.
func TestAnExpiryIsValidForPlansAndCommandsAlike(t *testing.T) {
	for _, day := range []string{"0000-01-01", "0000-12-31", "0001-01-01", "0001-01-02", "2026-11-21", "9999-12-30", "9999-12-31"} {
		for _, clock := range []string{"T00:00:00", "T12:00:00", "T23:59:59"} {
			for _, zone := range []string{"Z", "+08:00", "-08:00", "+14:00", "-12:00"} {
				at, err := time.Parse(time.RFC3339, day+clock+zone)
				check(t, err)
				raw, err := encodeCommand(keepalive(), "sweep-1", []Included{{ProxyID: "px_1", ExpiresAt: at.UTC()}})
				if err == nil {
					_, err = command.Parse(fact.KindRenewal, raw, command.Rules{})
				}
				if usable := usableExpiry(tables.Proxy{ProxyID: "px_1", ExpiresAt: &at}); usable != (err == nil) {
					t.Errorf("%s: a plan takes it: %v; a command: %v", at, usable, err)
				}
			}
		}
	}
}

// The intake would refuse the whole command, with all its other proxies, at every run.
func TestAnExpiryThatNoCommandCanSayIsLeftOut(t *testing.T) {
	at := func(p tables.Proxy, text string) tables.Proxy {
		expires, err := time.Parse(time.RFC3339, text)
		check(t, err)
		p.ExpiresAt = &expires
		return p
	}
	unread := px("px_unread", time.Hour)
	unread.SeenAt = time.Time{}
	s := keepalive()
	w := newWorld(t, s, at(px("px_early", 0), "0001-01-01T00:00:00+08:00"), at(px("px_first", 0), "0000-01-01T00:00:00Z"),
		px("px_1", time.Hour), px("px_2", 2*time.Hour), unread)
	paid(t, w.ledger, "px_1", 300)
	plan := w.plan(t)
	for _, id := range []string{"px_early", "px_first"} {
		want(t, "why "+id+" is out", plan.why(id), ReasonBadExpiry)
	}
	want(t, "why the unread is out", plan.why("px_unread"), ReasonUnread)
	want(t, "commands", len(plan.Commands), 1)
	want(t, "proxies", decoded(t, plan)[0].ProxyIDs, []string{"px_1", "px_2"})
	_, err := command.Parse(fact.KindRenewal, plan.Commands[0], command.Rules{})
	check(t, err)
	late := at(px("px_late", 0), "9999-12-31T23:59:59-08:00")
	want(t, "an expiry of the year 10000", (&Inputs{}).BarredBy(w.Schedule.Match.Filter(Lists{}), late), ReasonBadExpiry)
	late.ExpiresAt = nil
	want(t, "no expiry", (&Inputs{}).BarredBy(w.Schedule.Match.Filter(Lists{}), late), "")
}
