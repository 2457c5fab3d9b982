//go:build check

package crashtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
)

// The server has the configured users, but other permissions than `nats-config` prints.
func TestDoctorSaysWhereUsersAreNotKeptApart(t *testing.T) {
	t.Parallel()
	const users = `[{user: prod, password_file: nats.secret, roles: [{role: producer, accounts: [main]}]}, {user: sub, password_file: nats.secret, roles: [{role: subscriber, accounts: [main]}]}]`
	asIs := func(text string) string { return text }
	for _, c := range []struct {
		name, more, says string
		mistake          func(printed string) string
	}{
		{"as printed", "", "2 users tried", asIs},
		{"one account without permissions", "", "reaches $JS.API.STREAM.INFO.KV_PERENNIAL_LEASES", func(string) string {
			return fmt.Sprintf("authorization {users: [{user: perennial, password: %[1]q}, {user: prod, password: %[1]q}, {user: sub, password: %[1]q}]}", natsPassword)
		}},
		{"no login is asked for", `no_auth_user: "prod"`, "lets in a client without a login", asIs},
		{"one permission too many", "", "may publish on $KV.PERENNIAL_LEASES.* without a role for it", func(text string) string {
			return strings.Replace(text, `publish: {allow: [`, `publish: {allow: ["$KV.PERENNIAL_LEASES.*", `, 1)
		}},
		{"one permission too few", "", "user sub may not subscribe to perennial.events.main.>", func(text string) string {
			return strings.Replace(text, `"_INBOX.>", "perennial.events.main.>"`, `"_INBOX.>"`, 1)
		}},
		{"consumers past the runner", "", "asks for consumers of account main and is not answered by its runner", func(text string) string {
			return strings.ReplaceAll(text, `"perennial.js.main.CONSUMER.CREATE.PERENNIAL_EVENTS_main"`, `"$JS.API.CONSUMER.CREATE.PERENNIAL_EVENTS_main"`)
		}},
		{"an account of two", "", "and not in PERENNIAL_USER_sub of its own", func(text string) string { return strings.ReplaceAll(text, "PERENNIAL_USER_sub", "PERENNIAL_USER_x") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			w.write("nats.secret", natsPassword, 0o600)
			n := newNATSProcess(t, w)
			w.configure(fmt.Sprintf("nats://perennial:%s@127.0.0.1:%d", natsPassword, n.port), "")
			text, err := os.ReadFile(filepath.Join(w.dir, "perennial.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			w.write("perennial.yaml", strings.Replace(string(text), "listen: 127.0.0.1:0}\nhttp", "listen: 127.0.0.1:0, sync_always: true, users: "+users+"}\nhttp", 1), 0o600)
			n.startAs(c.more + "\n" + c.mistake(w.mustCLI("nats-config")))
			_, line := w.run()
			w.readySays(line, ready)
			out, _, code := w.cli("doctor")
			if (code == cli.ExitDone) != (c.name == "as printed") || !strings.Contains(out, c.says) || strings.Contains(out, natsPassword) ||
				strings.Contains(out, "NOT OK  roles") != (c.name != "as printed") {
				t.Errorf("exit %d\n%s", code, out)
			}
		})
	}
}
