package crashtest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"perennial/cmd/perennial/internal/cli"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/queue/embedded"
)

const liveAppID = "live_app_alpha"

// configureLive configures a production account with a base URL and a NATS section.
func (w *world) configureLive(address, nats string) {
	w.write("perennial.yaml", fmt.Sprintf(`
data_dir: ./data
nats: {%s}
http: {listen: 127.0.0.1:0}
accounts: {main: {base_url: %s, app_id: %s, secret_file: main.secret}}
`, nats, address, liveAppID), 0o600)
}

// withUsers returns the NATS section of an embedded server that asks for a password.
func (w *world) withUsers() string {
	w.write("nats.secret", "pw", 0o600)
	return "listen: 127.0.0.1:0, users: [{user: ops, password_file: nats.secret, roles: [{role: operator, accounts: [main]}, {role: producer, accounts: [main]}]}]"
}

func TestAProductionAccountRefusesANATSWithoutALogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	server, err := embedded.Start(embedded.Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown()
	w.configureLive(w.sandbox.Production, fmt.Sprintf("url: %q", server.URL()))
	if _, errs, code := w.cli("run"); code != cli.ExitFailed || !strings.Contains(errs, "asks for no login") {
		t.Errorf("exit %d\n%s", code, errs)
	}
}

// The runner does not use a production key at a sandbox. In one case the sandbox does not know the
// key, in the other only the wallet shows that it is a sandbox. A waiting command is not sent.
func TestTrap42ALiveKeyIsNotUsedAtASandbox(t *testing.T) {
	t.Parallel()
	wallet := `{"success":true,"code":"ok","data":{"environment":"sandbox","currency":"USD","balance_cents":5,"balance":"0.05","frozen_cents":0,"cash_value":false}}`
	for name, c := range map[string]struct {
		answers []*script
		says    string
	}{
		"a key it does not know": {nil, "invalid_signature"},
		"a wallet of play money": {[]*script{
			{method: http.MethodGet, holds: "/api/v1/account", steps: []spoil{{body: `{"success":true,"code":"ok","data":{"account_id":"acc_alpha","email":"a@example.com","status":"active"}}`}}},
			{method: http.MethodGet, holds: "/api/v1/wallet", steps: []spoil{{body: wallet}}},
		}, "check base_url and app_id"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1)
			x := w.spoiled(c.answers...)
			w.configureLive(w.sandbox.Sandbox, w.withUsers())
			run := start(t, w.dir, "run")
			var line daemon.ReadyLine
			run.ready(&line)
			// If the wallet shows it, the run may have ended already.
			err := publishAs(t, strings.Replace(line.NATS, "//", "//ops:pw@", 1), `{"id":"r1","duration_days":30,"proxy_ids":["px_1"]}`)
			if err != nil && c.answers == nil {
				t.Error(err)
			}
			await(t, "it says why it does nothing", func() bool { return strings.Contains(run.stderr.String(), c.says) })
			run.terminate()
			for _, s := range x.sightings() {
				if s.method != http.MethodGet {
					t.Errorf("%s %s", s.method, s.path)
				}
			}
			if charged, _ := checkReferee(t, w.charges); charged != 0 {
				t.Errorf("%d cents were charged", charged)
			}
		})
	}
}

// publishAs publishes a renewal if a stream accepts it.
func publishAs(t testing.TB, url, command string) error {
	t.Helper()
	return publishOn(t, url, "perennial.commands.main.proxy.renew", command)
}

func publishOn(t testing.TB, url, subject, command string) error {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		return err
	}
	defer nc.Close()
	_, err = nc.Request(subject, []byte(command), 10*time.Second)
	return err
}
