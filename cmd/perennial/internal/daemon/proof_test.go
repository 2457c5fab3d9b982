// Whether a runner can use the provider, and what it does if not.

package daemon

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"perennial/cmd/perennial/internal/cluster"
	"perennial/cmd/perennial/internal/config"
	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/upstream"
)

// The leader gives up the account after a while, counted from the first failure. An answer resets
// the count.
func TestAHolderWithoutTheProviderLeavesTheAccount(t *testing.T) {
	a := accessTest{&account{Name: "a", host: &Host{}, config: &config.Account{RatePerSecond: 5}}}
	unservedFor := leaveAfter(accessEvery)
	began := time.Now()
	if a.leaves(began) {
		t.Error("it leaves an account of which nothing is known")
	}
	a.access.note("no route", false, began)
	a.access.note("no answer", false, began.Add(unservedFor/2))
	if a.leaves(began.Add(unservedFor - time.Second)) {
		t.Error("it leaves the account at once")
	}
	if !a.leaves(began.Add(unservedFor)) {
		t.Error("it keeps the account for good")
	}
	a.access.note("", false, began.Add(unservedFor))
	if a.leaves(began.Add(time.Hour)) {
		t.Error("it leaves the account although the provider answers")
	}
}

// A silent provider may be silent for all runners, so that it does not count as a refusal. Neither
// result proves that the key works.
func TestARefusedKeyIsSaid(t *testing.T) {
	var p access
	if p.usable {
		t.Error("what was not asked for is proved")
	}
	p.note("the provider refused: invalid_signature", true, time.Now())
	if !strings.Contains(p.refusal(), "invalid_signature") || p.usable {
		t.Errorf("a refused key is %q, good %t", p.refusal(), p.usable)
	}
	p.note("no answer", false, time.Now())
	if p.refusal() != "" || p.usable {
		t.Errorf("silence is %q, good %t", p.refusal(), p.usable)
	}
	p.note("", false, time.Now())
	if !p.usable {
		t.Error("an answer is no proof")
	}
}

// The standbys together use at most a twentieth of the rate, however many they are. A leader waits
// long enough for each of them to test its access.
func TestTheRunnersThatFollowTakeATwentiethOfTheRate(t *testing.T) {
	now := time.Now()
	for _, test := range []struct {
		others int
		rate   float64
		every  time.Duration
	}{{0, 5, accessEvery}, {2, 5, accessEvery}, {10, 5, 40 * time.Second}, {49, 5, 196 * time.Second}, {49, 500, accessEvery}, {49, 0, accessEvery}} {
		a := accessTest{&account{Name: "a", host: &Host{}, config: &config.Account{RatePerSecond: test.rate}}}
		all := []cluster.Node{{Node: "archive", SaidAt: now, Accounts: []cluster.NodeAccount{{Account: "a", Borrows: true}}}}
		for n := range test.others {
			all = append(all, cluster.Node{Node: fmt.Sprint("other-", n), SaidAt: now, Accounts: []cluster.NodeAccount{{Account: "a", Ready: true}}})
		}
		a.host.peers.Note(all, now)
		every := a.interval(now)
		if every != test.every || leaveAfter(every) < 2*every {
			t.Errorf("%d others, %v a second: every %s", test.others, test.rate, every)
		}
	}
}

// Neither a Retry-After nor a page from a gateway before the API counts as a refusal of the key.
func TestAProofWaitsOutARetryAfter(t *testing.T) {
	const page = "<html>be back soon</html>"
	for _, test := range []struct {
		status     int
		retryAfter string
		body       string
		refused    bool
		good       bool
		rest       time.Duration
	}{
		{429, "120", `{"success":false,"code":"rate_limited","message":"slow down","data":{}}`, false, true, 2 * time.Minute},
		{429, "120", page, false, false, 2 * time.Minute},
		{429, "", page, false, false, decide.ThrottleFirst},
		{403, "", page, false, false, 0},
		{404, "", page, false, false, 0},
		{503, "", page, false, false, 0},
		{401, "", `{"success":false,"code":"invalid_signature","message":"no","data":{}}`, true, false, 0},
	} {
		provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if test.retryAfter != "" {
				w.Header().Set("Retry-After", test.retryAfter)
			}
			w.WriteHeader(test.status)
			_, _ = io.WriteString(w, test.body)
		}))
		x := newTaken(t)
		var err error
		x.Client, err = upstream.New(upstream.Config{BaseURL: provider.URL, AppID: "sbx_app_demo", Secret: "secret", Clock: time.Now})
		must(t, err)
		found := accessTest{x.account}.read(t.Context())
		if found.refused != test.refused || (found.why == "") != test.good || found.wait != test.rest {
			t.Errorf("%d %s: %+v", test.status, test.body, found)
		}
		x.Client.Close()
		provider.Close()
	}
}

// The account's journal says until when the provider asked its runners to wait.
func TestAThrottledAccountIsNotProved(t *testing.T) {
	x := newTaken(t)
	must(t, x.lifecycle().takeOver(t.Context()))
	now := time.Now()
	if rest := (accessTest{x.account}).throttledFor(t.Context(), now); rest != 0 {
		t.Errorf("an account that is not throttled rests %s", rest)
	}
	leads, err := x.journal().Lead(t.Context(), x.journal().Outbox())
	must(t, err)
	defer leads.End()
	until := now.Add(time.Hour).UTC().Truncate(time.Microsecond)
	must(t, x.Ledger().Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.AccountPaused{Scope: decide.ScopeAccount, Cause: decide.CauseThrottled, Detail: "slow down", Until: &until})
	}))
	if rest := (accessTest{x.account}).throttledFor(t.Context(), now); rest != until.Sub(now) {
		t.Errorf("it rests %s", rest)
	}
}
