//go:build check

// A runner that cannot use the provider leaves the account to a runner that can.

package crashtest

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/daemon"
)

// wrongKey sets a secret that the provider refuses.
const wrongKey = "PERENNIAL_MAIN_SECRET=not-the-secret-of-this-account-0000000000"

// As a standby, the runner reports its wrong key and does not count as a candidate for failover. If
// it is the only runner, it leads the account. It hands over when a runner comes whose key works.
func TestARunnerWithAWrongKeyLeavesTheAccountToOneThatHasIt(t *testing.T) {
	t.Parallel()
	p := newPair(t, 60)
	p.start(0, "")
	p.awaitRole(0, "active")
	p.startWith(1, wrongKey)
	p.awaitOf(1, "the wrong key is on /readyz", func() bool {
		text, _ := p.w.get(p.at[1].HTTP + "/readyz")
		return strings.Contains(text, "could not run it: the provider refused")
	})
	if nodes := p.w.nodesOf(p.at[1]); regexp.MustCompile(`"role":"standby"[^}]*"ready":true`).MatchString(nodes) {
		t.Errorf("a runner with a wrong key says that it could run the account: %s", nodes)
	}
	p.runs[0].kill()
	p.awaitOf(1, "the only runner takes the account", func() bool { return p.standing(1) == "active" })
	first := load()[:10]
	first.publish(t, p.nats.url())
	p.start(0, "")
	p.awaitRole(0, "active")
	first.await(t, p.nats.url())
	p.awaitOf(1, "it follows again", func() bool { return p.standing(1) == "standby" })
	p.runs[0].kill()
	p.runs[1].kill()
	p.runs[0], p.runs[1] = nil, nil
	p.sameBooks(first.ids())
}

// standing returns a runner's role, also while the runner is not ready.
func (p *pair) standing(n int) string {
	var v daemon.Readiness
	text, err := p.w.get(p.at[n].HTTP + "/readyz?verbose")
	if err != nil || json.Unmarshal([]byte(text), &v) != nil || len(v.Accounts) != 1 {
		return ""
	}
	return v.Accounts[0].Role
}
