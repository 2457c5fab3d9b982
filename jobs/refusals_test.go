package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"perennial/jobs/inspect"
	"perennial/ledger/fact"
	"perennial/queue"
	"perennial/queue/intake"
	"perennial/queue/letters"
)

// offerAll offers renewals one after another and fails the test unless each is acknowledged.
func offerAll(t *testing.T, offer func(queue.Kind, []byte) bool, commands ...string) {
	t.Helper()
	for _, c := range commands {
		if !offer(queue.KindProxyRenew, []byte(c)) {
			t.Fatalf("%s was put back", c)
		}
	}
}

func renewalFor(id string, days int) string {
	return fmt.Sprintf(`{"id":%q,"duration_days":%d,"proxy_ids":["px_1"]}`, id, days)
}

func TestARefusalIsAFactOncePerContent(t *testing.T) {
	h := idleRig(t)
	offer := h.intake()
	late := `{"id":"a","duration_days":30,"proxy_ids":["px_1"],"not_after":"2020-01-01T00:00:00Z"}`
	for range 20 {
		offerAll(t, offer, renewalFor("a", 31), renewalFor("a", 45), late)
	}
	if n := len(h.facts("command.rejected")); n != 3 || len(h.dead) != 0 {
		t.Errorf("%d refusals and %d dead letters of three contents", n, len(h.dead))
	}
	offerAll(t, offer, renewalFor("a", 30))
	if n := len(h.facts("command.accepted")); n != 1 {
		t.Error("the id of refused contents is not free for another")
	}
}

func TestAConflictIsAFactOncePerContent(t *testing.T) {
	h := idleRig(t)
	offer := h.intake()
	offerAll(t, offer, renewalFor("a", 30))
	for range 20 {
		offerAll(t, offer, renewalFor("a", 60), renewalFor("a", 31))
	}
	if n := len(h.facts("command.conflict")); n != 2 || len(h.dead) != 0 {
		t.Errorf("%d conflicts and %d dead letters of two contents", n, len(h.dead))
	}
}

func TestBeyond32RefusalsOfAnIdAreDeadLetters(t *testing.T) {
	t.Parallel()
	for name, fact := range map[string]string{"refused": "command.rejected", "in conflict": "command.conflict"} {
		t.Run(name, func(t *testing.T) {
			h := idleRig(t)
			offer := h.intake()
			if fact == "command.conflict" {
				offerAll(t, offer, renewalFor("a", 30))
			}
			for range 3 {
				for i := range 40 {
					offerAll(t, offer, renewalFor("a", 31+30*i))
				}
			}
			if n := len(h.facts(fact)); n != 32 {
				t.Errorf("%d facts of 40 contents", n)
			}
			if len(h.dead) != 3*8 {
				t.Fatalf("%d dead letters of what 32 facts left over", len(h.dead))
			}
			d := h.dead[0]
			if string(d.Data) != renewalFor("a", 31+30*32) || !strings.Contains(d.Reason, "choose another id") || !strings.Contains(d.Reason, "32") {
				t.Errorf("%+v", d)
			}
			offerAll(t, offer, renewalFor("b", 31))
			if n := len(h.facts("command.rejected")); n == 0 {
				t.Error("another id's refusal is no fact")
			}
			offerAll(t, offer, renewalFor("a", 30))
			if n := len(h.facts("command.accepted")); n != 1 {
				t.Errorf("%d were accepted", n)
			}
		})
	}
}

// If a dead letter cannot be stored, the message is not acknowledged and is redelivered.
func TestARefusalWithoutAFactOrALetterComesAgain(t *testing.T) {
	t.Parallel()
	full := true
	h := idleRig(t, func(c *Config) {
		c.DeadLetter = func(context.Context, letters.Dead) error {
			if full {
				return errors.New("the disk is full")
			}
			return nil
		}
	})
	offer := h.intake()
	for i := range 32 {
		offerAll(t, offer, renewalFor("a", 31+30*i))
	}
	if offer(queue.KindProxyRenew, []byte(renewalFor("a", 1111))) {
		t.Error("it was acknowledged and left nothing")
	}
	full = false
	offerAll(t, offer, renewalFor("a", 1111))
}

// A renewal whose proxies are all reserved is refused once. Later, the same content is the
// same command, which was refused.
func TestWhatWasRefusedAsClaimedStaysRefused(t *testing.T) {
	h := idleRig(t)
	offer := h.intake()
	offerAll(t, offer, renewalFor("a", 30), renewalFor("b", 30), renewalFor("b", 30))
	refused := h.facts("command.rejected")
	if len(refused) != 1 {
		t.Fatalf("%+v", refused)
	}
	if f, _ := refused[0].(fact.CommandRejected); f.Code != "claimed" || f.CommandID != "b" {
		t.Errorf("%+v", f)
	}
	// After other content the same content is decided again, without a second fact.
	offerAll(t, offer, renewalFor("b", 31), renewalFor("b", 30))
	if n := len(h.facts("command.rejected")); n != 2 {
		t.Errorf("%d refusals of two contents", n)
	}
	for _, text := range []string{renewalFor("b", 30), renewalFor("b", 31)} {
		if state, err := inspect.StateOf(t.Context(), h.ledger, "b", hashOf(t, text), ""); err != nil || state != "rejected" {
			t.Errorf("%s is %q: %v", text, state, err)
		}
	}
}

func hashOf(t *testing.T, text string) string {
	t.Helper()
	a := &arrival{kind: fact.KindRenewal, msg: &intake.Message{Data: []byte(text)}}
	check(t, a.parse(rulesOfSandbox))
	return a.hash
}
