//go:build check

// The invariants after each round, and after the end of all runners.

package clustertest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/queue/service"
	"perennial/upstream"
	"perennial/upstream/sandbox"
)

// settleTime limits the wait for the end of every command of a round, if all runners have the same
// clock.
const settleTime = 90 * time.Second

// settle waits until every acknowledged command has ended. A new leader retries some requests of
// its predecessor only after ten minutes: settle does not wait for their commands, and records them
// in r.inherited.
func (r *rig) settle() {
	r.t.Helper()
	var left []string
	looks, since := 0, time.Now()
	limit := settleTime + r.spread() + r.clocksWere
	if await(r.ctx, limit, func() bool {
		unavailable, wrong := r.stream.read(r.ctx, r.js)
		if wrong != nil {
			r.t.Fatalf("%v; logs in %s", wrong, r.dir)
		}
		if unavailable != nil {
			return false
		}
		before := len(left)
		left = slices.DeleteFunc(r.load.ids(), func(id string) bool { return r.stream.finished[id] > 0 || r.inherited[id] != nil })
		if len(left) == 0 {
			return true
		}
		if len(left) != before {
			looks, since = 0, time.Now()
		}
		if len(r.runners) == 1 || time.Since(since) < 5*time.Second {
			return false
		}
		// Nothing ended for a while: only inherited commands may be left.
		since = time.Now()
		keys := r.keysOfInherited(left)
		if looks++; keys == nil {
			looks = 0
		}
		if looks < 2 {
			return false
		}
		maps.Copy(r.inherited, keys)
		return true
	}) {
		return
	}
	r.t.Fatalf("after %s %d commands have not ended, %v among them; logs in %s", limit, len(left), left[:min(5, len(left))], r.dir)
}

// keysOfInherited returns the idempotency keys of these commands. It returns nil if a command is
// not in a state that a new leader leaves alone.
func (r *rig) keysOfInherited(ids []string) map[string][]string {
	keys := map[string][]string{}
	for _, id := range ids {
		ctx, cancel := context.WithTimeout(r.ctx, 5*time.Second)
		answer, err := service.Request(ctx, r.queue.JetStream(), "main", "status", fmt.Appendf(nil, `{"id":%q}`, id))
		cancel()
		var status inspect.CommandStatus
		if err != nil || json.Unmarshal(answer, &status) != nil || len(status.Operations) == 0 {
			return nil
		}
		for _, o := range status.Operations {
			if o.State.Ended() {
				continue
			}
			if o.State != fact.StateWaiting || !strings.Contains(o.Reason, "another runner sent it") {
				return nil
			}
			keys[id] = append(keys[id], o.IdempotencyKey)
		}
	}
	return keys
}

// unended returns the keys of inherited commands that have not ended.
func (r *rig) unended() map[string]bool {
	keys := map[string]bool{}
	for id, of := range r.inherited {
		for _, key := range of {
			if r.stream.finished[id] == 0 {
				keys[key] = true
			}
		}
	}
	return keys
}

// check compares the ends, charges, wallet, books and stream.
func (r *rig) check() {
	r.t.Helper()
	// A recent charge or refund reaches the books a moment later.
	var problem string
	if !await(r.ctx, 20*time.Second, func() bool {
		problem = r.books()
		return problem == "" || r.t.Failed()
	}) {
		r.t.Error(problem)
	}
	for id, n := range r.stream.finished {
		if n != 1 {
			r.t.Errorf("command %s ended %d times", id, n)
		}
	}
	unended := r.unended()
	// On a busy machine the servers may elect another leader, which interrupts a comparison.
	if len(unended) == 0 && !await(r.ctx, patience, func() bool {
		out, err := command(r.ctx, r.dir, "ledger", "reconcile", "--config", r.holder().config(), "-o", "json")
		problem = fmt.Sprintf("reconcile: %v %s", err, out)
		return err == nil
	}) {
		r.t.Error(problem)
	}
	if r.t.Failed() {
		r.t.Fatalf("the round is wrong; logs in %s", r.dir)
	}
	r.t.Logf("%d commands, %d rows, %d paid, %d inherited", len(r.load.ids()), len(r.stream.rows), r.stream.paid, len(unended))
}

// referee sums the sandbox's charges and refunds. It also returns how much was charged under
// inherited keys, and how many other keys paid. A key that paid twice is an error.
func (r *rig) referee(inherited map[string]bool) (total money, unbooked int64, keys int) {
	r.t.Helper()
	charges, err := sandbox.ReadCharges(r.charges)
	if err != nil {
		r.t.Fatal(err)
	}
	paid := map[string]bool{}
	for _, c := range charges {
		if c.Kind == "refund" {
			total.Refunded += c.AmountCents
			continue
		}
		total.Charged += c.AmountCents
		if paid[c.IdempotencyKey] {
			r.t.Errorf("the provider charged twice for the key %s", c.IdempotencyKey)
		}
		paid[c.IdempotencyKey] = true
		if inherited[c.IdempotencyKey] {
			unbooked += c.AmountCents
		} else {
			keys++
		}
	}
	return total, unbooked, keys
}

// books describes how the ledger, the stream and the wallet differ from the referee, "" if they
// agree.
func (r *rig) books() string {
	r.t.Helper()
	if unavailable, wrong := r.stream.read(r.ctx, r.js); unavailable != nil || wrong != nil {
		return fmt.Sprint("events: ", unavailable, wrong)
	}
	r.control("/charges") // lets the sandbox finish what is due
	total, unbooked, keys := r.referee(r.unended())
	out, err := command(r.ctx, r.dir, "ledger", "balance", "--config", r.holder().config(), "-o", "json")
	if err != nil {
		return err.Error()
	}
	var book tables.Balance
	if err := json.Unmarshal([]byte(out), &book); err != nil {
		return err.Error()
	}
	client, err := upstream.New(upstream.Config{BaseURL: r.sandbox.Sandbox, AppID: appID, Secret: secret, Clock: time.Now})
	if err != nil {
		return err.Error()
	}
	defer client.Close()
	wallet, err := client.Wallet(r.ctx)
	if err != nil {
		return err.Error()
	}
	want := money{total.Charged - unbooked, total.Refunded}
	if have := (money{book.ChargedCents, book.RefundedCents}); have != want || r.stream.booked != want || r.stream.paid != keys || book.WalletCents != wallet.BalanceCents+unbooked {
		return fmt.Sprintf("referee without what is inherited: %+v, %d keys; ledger: %+v; stream: %+v, %d paid; wallet: ledger %d, provider %d and %d not booked",
			want, keys, have, r.stream.booked, r.stream.paid, book.WalletCents, wallet.BalanceCents, unbooked)
	}
	return ""
}

func (r *rig) control(path string) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.ctx, http.MethodGet, r.sandbox.Control+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		r.t.Fatalf("%s: HTTP %d", path, response.StatusCode)
	}
}

// finish stops all runners, the leader last, and compares their ledgers with the stream. A standby
// has at least the rows from before the stop. The leader has all rows.
func (r *rig) finish() {
	r.t.Helper()
	holder := r.holder()
	if _, wrong := r.stream.read(r.ctx, r.js); wrong != nil {
		r.t.Fatal(wrong)
	}
	before := len(r.stream.rows)
	for _, one := range r.runners {
		if one != holder {
			if !await(r.ctx, 20*time.Second, func() bool { return len(one.rowsAfter(before-1)) > 0 }) {
				r.t.Errorf("runner %d has %d of %d rows: it does not follow", one.n, len(one.rowsAfter(0)), before)
			}
			if code := one.terminate(); code != 0 {
				r.t.Errorf("runner %d: exit %d", one.n, code)
			}
		}
	}
	if code := holder.terminate(); code != 0 {
		r.t.Errorf("runner %d: exit %d", holder.n, code)
	}
	if unavailable, wrong := r.stream.read(r.ctx, r.js); unavailable != nil || wrong != nil {
		r.t.Fatal(unavailable, wrong)
	}
	for _, one := range r.runners {
		least := before
		if one == holder {
			least = len(r.stream.rows)
		}
		r.compare(one, least)
	}
}

// compare verifies a ledger file and compares its rows with the stream's.
func (r *rig) compare(one *runner, least int) {
	r.t.Helper()
	if out, err := command(r.ctx, r.dir, "ledger", "verify", "--config", one.config()); err != nil {
		r.t.Errorf("runner %d: verify: %v %s", one.n, err, out)
	}
	rows := one.rowsAfter(0)
	if len(rows) < least || len(rows) > len(r.stream.rows) {
		r.t.Errorf("runner %d has %d rows, the stream %d; at least %d were expected", one.n, len(rows), len(r.stream.rows), least)
	}
	for i := range min(len(rows), len(r.stream.rows)) {
		if rows[i] != r.stream.rows[i] {
			r.t.Errorf("row %d of runner %d is %v, and %v in the stream", i+1, one.n, rows[i], r.stream.rows[i])
			return
		}
	}
}

// rowsAfter returns the rows after row n of the runner's ledger file, or none if the file cannot be
// read.
func (o *runner) rowsAfter(n int) (rows []row) {
	l, err := ledger.Open(o.rig.ctx, ledger.Config{Path: filepath.Join(o.data(), "main.ledger.db"), Clock: time.Now, ReadOnly: true})
	if err != nil {
		return nil
	}
	defer func() { _ = l.Close() }()
	for {
		page, err := l.Rows(o.rig.ctx, int64(n+len(rows)), 1000)
		if err != nil || len(page) == 0 {
			return rows
		}
		for _, p := range page {
			rows = append(rows, row{p.Type, p.Hash})
		}
	}
}
