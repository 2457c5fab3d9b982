package jobs

import (
	"errors"
	"testing"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/queue"
	"perennial/queue/intake"
)

// arrives returns a command that was read from the stream and is not accepted yet.
func (h *rig) arrives(kind queue.Kind, text string) *arrival {
	h.t.Helper()
	o := offered{ended: make(chan bool, 1)}
	m := intake.NewMessage(intake.Message{Kind: kind, Data: []byte(text), Published: h.now()}, o)
	a, err := h.runner.read(h.t.Context(), &m)
	check(h.t, err)
	h.runner.ready.reserve(a.place())
	return a
}

// oneToken returns a rig whose gate passes one request, and none after it for days.
func oneToken(t *testing.T) *rig {
	t.Helper()
	h := idleRig(t)
	h.runner.intaker.gate = newRateGate(1e-6)
	return h
}

func TestAnAcceptanceThatRunsTwiceTakesOneToken(t *testing.T) {
	h := oneToken(t)
	a := h.arrives(queue.KindOrderCreate, `{"id":"o","duration_days":30,"items":[{"offer_code":"off_1","quantity":1}]}`)
	h.runner.takeTokens([]*arrival{a})
	boom := errors.New("another of its group failed")
	for _, fails := range []error{boom, nil} {
		err := h.ledger.Write(t.Context(), func(tx *ledger.Tx) error { return errors.Join(h.runner.accept(tx, a), fails) })
		if !errors.Is(err, fails) {
			t.Fatal(err)
		}
	}
	if len(a.jobs) != 1 || a.jobs[0].sending == nil || a.jobs[0].op.State != fact.StateSending {
		t.Fatalf("the second run of the function did not start it: %+v", a.jobs)
	}
	h.runner.giveTokensBack([]*arrival{a})
	if h.runner.intaker.gate.TryPass() {
		t.Error("a token was used and given back as well")
	}
}

// New commands must not have ambiguous labels. A command that an older version accepted with
// such labels stays the same command.
func TestALabelThatReadsAsAnotherIsRefusedOfNewCommands(t *testing.T) {
	h := idleRig(t)
	accept := func(a *arrival) *arrival {
		check(t, h.ledger.Write(t.Context(), func(tx *ledger.Tx) error { return h.runner.accept(tx, a) }))
		return a
	}
	text := func(id string) string {
		return `{"id":"` + id + `","duration_days":30,"items":[{"offer_code":"off_1","quantity":1}],"labels":{"a=b":"c"}}`
	}
	before := h.arrives(queue.KindOrderCreate, text("old"))
	before.invalid = nil
	accept(before)
	if again := accept(h.arrives(queue.KindOrderCreate, text("old"))); !again.absorbed || again.conflict != "" {
		t.Errorf("an earlier command was delivered again: %+v", again)
	}
	accept(h.arrives(queue.KindOrderCreate, text("new")))
	if told, _ := h.facts("command.rejected")[0].(fact.CommandRejected); told.CommandID != "new" || len(h.facts("command.conflict")) != 0 || len(h.facts("command.accepted")) != 1 {
		t.Errorf("%+v", told)
	}
}

func TestTheTokenOfACommandNotStartedIsReturned(t *testing.T) {
	t.Parallel()
	order := `{"id":"o","duration_days":30,"items":[{"offer_code":"off_1","quantity":1}]}`
	for name, c := range map[string]struct {
		kind queue.Kind
		text string
	}{
		"absorbed":                         {queue.KindOrderCreate, order},
		"in conflict":                      {queue.KindOrderCreate, `{"id":"o","duration_days":60,"items":[{"offer_code":"off_1","quantity":1}]}`},
		"of a proxy that was not seen yet": {queue.KindProxyRenew, `{"id":"r","duration_days":30,"proxy_ids":["px_unseen"]}`},
		"too late":                         {queue.KindOrderCreate, `{"id":"late","duration_days":30,"items":[{"offer_code":"off_1","quantity":1}],"not_after":"2020-01-01T00:00:00Z"}`},
		"guarded":                          {queue.KindProxyRenew, `{"id":"g","duration_days":30,"proxy_ids":["px_1"],"due_before":"2999-01-01T00:00:00Z"}`},
		"refused":                          {queue.KindProxyRenew, `{"id":"x","duration_days":31,"proxy_ids":["px_1"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			h := oneToken(t)
			h.runner.intaker.gate.TryPass()
			check(t, h.runner.acceptBatch(t.Context(), []*arrival{h.arrives(queue.KindOrderCreate, order)}))
			h.runner.intaker.gate.GiveBack()
			check(t, h.runner.acceptBatch(t.Context(), []*arrival{h.arrives(c.kind, c.text)}))
			if !h.runner.intaker.gate.TryPass() {
				t.Error("a token was lost")
			}
			if h.runner.intaker.gate.TryPass() {
				t.Error("a token was made")
			}
		})
	}
}

func TestATokenOfACommandThatFailsIsGivenBack(t *testing.T) {
	h := oneToken(t)
	a := h.arrives(queue.KindOrderCreate, `{"id":"o","duration_days":30,"items":[{"offer_code":"off_1","quantity":1}]}`)
	b := h.arrives(queue.KindOrderCreate, `{"id":"p","duration_days":30,"items":[{"offer_code":"off_1","quantity":1}]}`)
	a.hash, b.hash = "", ""
	if err := h.runner.acceptBatch(t.Context(), []*arrival{a, b}); err == nil {
		t.Fatal("commands without a hash were accepted")
	}
	if !h.runner.intaker.gate.TryPass() || h.runner.intaker.gate.TryPass() {
		t.Error("not one token is there, as before")
	}
}
