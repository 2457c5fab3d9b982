// Whether a runner can use the provider, and what follows where it cannot.

package daemon

import (
	"strings"
	"testing"
	"time"
)

// TestAHolderWithoutTheProviderLeavesTheAccount after a while, counted from the first
// failure; an answer ends it.
func TestAHolderWithoutTheProviderLeavesTheAccount(t *testing.T) {
	var a account
	began := time.Now()
	if a.leaves(began) {
		t.Error("it leaves an account of which nothing is known")
	}
	a.proof.note("no route", false, began)
	a.proof.note("no answer", false, began.Add(unservedFor/2))
	if a.leaves(began.Add(unservedFor - time.Second)) {
		t.Error("it leaves the account at once")
	}
	if !a.leaves(began.Add(unservedFor)) {
		t.Error("it keeps the account for good")
	}
	a.proof.note("", false, began.Add(unservedFor))
	if a.leaves(began.Add(time.Hour)) {
		t.Error("it leaves the account although the provider answers")
	}
}

// TestARefusedKeyIsSaid while a provider that is silent, for all machines perhaps, is not:
// neither is a proof.
func TestARefusedKeyIsSaid(t *testing.T) {
	var p proof
	if p.isGood() {
		t.Error("what was not asked for is proved")
	}
	p.note("the provider refused: invalid_signature", true, time.Now())
	if !strings.Contains(p.refusal(), "invalid_signature") || p.isGood() {
		t.Errorf("a refused key is %q, good %t", p.refusal(), p.isGood())
	}
	p.note("no answer", false, time.Now())
	if p.refusal() != "" || p.isGood() {
		t.Errorf("silence is %q, good %t", p.refusal(), p.isGood())
	}
	p.note("", false, time.Now())
	if !p.isGood() {
		t.Error("an answer is no proof")
	}
}

// TestARunnerDefersToOneThatIsReady, and to none that is not, or is gone.
func TestARunnerDefersToOneThatIsReady(t *testing.T) {
	now := time.Now()
	var p peers
	p.hear([]Node{said("own", now), said("other", now, "b")}, now)
	if !p.ready("a", "own", now) || p.ready("b", "own", now) || p.ready("a", "own", now.Add(lateAfter)) {
		t.Errorf("ready: %t, held %t, gone %t", p.ready("a", "own", now), p.ready("b", "own", now), p.ready("a", "own", now.Add(lateAfter)))
	}
}
