package crashtest

import (
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
	"perennial/queue/natstest"
)

// The doctor reports the limit before the first start, and /readyz after it. The doctor also
// reports a server without JetStream.
func TestALimitOfTheNATSAccountIsSaid(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, `jetstream {store_dir: $STORE}, no_auth_user: runner
accounts {PERENNIAL {jetstream {max_streams: 2}, users: [{user: runner, password: pw}]}}`)
	w := newWorld(t, 1)
	w.configure(natstest.Start(t, "server_name: plain").ClientURL(), "")
	if f := examined(t, w, cli.ExitFailed)["jetstream"]; f.OK || !strings.Contains(f.Seen, "has no JetStream") || f.Do == "" {
		t.Errorf("doctor: %+v", f)
	}
	w.configure(server.ClientURL(), "")
	if f := examined(t, w, cli.ExitFailed)["quota"]; f.OK || !strings.Contains(f.Seen, "max_streams: 2 allows the NATS account 2 streams more, and 6 are needed") || !strings.Contains(f.Do, "raise it") {
		t.Errorf("doctor: %+v", f)
	}
	_, line := w.run()
	await(t, "the limit on /readyz", func() bool {
		text, _ := w.get(line.HTTP + "/readyz")
		return strings.Contains(text, "max_streams: ") && strings.Contains(text, "raise it")
	})
}
