package crashtest

import (
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
)

// Installation A is killed, and installation B takes its ports. No command in A's directory reaches
// B.
func TestTrap64AKilledRunsAddressesLeadToNoOtherInstallation(t *testing.T) {
	t.Parallel()
	ports := []string{"--nats-listen", freeAddress(t), "--http", freeAddress(t)}
	a, b := &world{t: t, dir: t.TempDir()}, &world{t: t, dir: t.TempDir()}
	killed, _ := a.run(ports...)
	a.mustCLI("wallet")
	killed.kill()
	commands := [][]string{
		{"order", "--item", "off_us_dallas=1", "--id", "spent-elsewhere"}, {"renew", "px_us_1", "--id", "renewed-elsewhere"},
		{"order", "--item", "off_us_dallas=1", "--id", "dry", "--dry-run"}, {"status"}, {"nodes"}, {"wallet"}, {"offers"}, {"web", "login"},
		{"account", "pause", "--by", "ann", "--reason", "r"},
	}
	refused := func(when string) {
		t.Helper()
		for _, args := range commands {
			out, errs, code := a.cli(args...)
			if code != cli.ExitUnreachable || !strings.Contains(errs, "perennial run") {
				t.Errorf("%s, %v: exit %d\n%s%s", when, args, code, out, errs)
			}
		}
	}
	refused("the ports are free")
	run, _ := b.run(ports...)
	b.mustCLI("order", "--item", "off_us_dallas=1", "--id", "mine", "--wait")
	refused("another installation has the ports")
	for _, id := range []string{"spent-elsewhere", "renewed-elsewhere", "dry"} {
		if out, _, code := b.cli("status", id); code == cli.ExitDone {
			t.Errorf("the other installation has carried out %s:\n%s", id, out)
		}
	}
	if out := b.mustCLI("account", "show"); strings.Contains(out, "paused") {
		t.Errorf("the other installation is paused:\n%s", out)
	}
	b.stopped(run)
}
