package crashtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
)

// An error says what failed, where, and what to do. It contains no terms of a library.
func TestErrorsSayWhatToDoInTheUsersWords(t *testing.T) {
	t.Parallel()
	w := &world{t: t, dir: t.TempDir()}
	w.write("utf16.csv", "\xff\xfei\x00d\x00,\x00", 0o600)
	w.write("plain16.csv", "i\x00d\x00,\x00d\x00", 0o600)
	w.write("note.txt", "not a ledger at all", 0o600)
	w.write("empty.db", "", 0o600)
	w.write("one.jsonl", `{"id":"a","duration_days":30,"proxy_ids":["px_1"]}`, 0o600)
	for args, says := range map[string]string{
		"order --item x=1 --days q": `--days "q": a whole number in plain digits is expected`, "renew px_1 --max-total-cents 7.5": `--max-total-cents "7.5": an amount with a point has two digits after it`,
		"renew": "renew: PROXY_ID is missing, as in `perennial renew", "sweep plan": "schedules plan: SCHEDULE is missing, as in `perennial schedules plan", "status a b": "it takes at most 1 argument, and has 2",
		"status --since soon": "a time over 0 is expected, such as 3d, 72h or 15m", "proxies list --within -3h": "a time over 0 is expected", "status --label x": "key=value is expected",
		"watch --type order.deliverd": "did you mean order.delivered?", "watch --type renewals.*": "is no type of event",
		"submit utf16.csv": "utf16.csv is not in UTF-8, but as it seems in UTF-16: save it as CSV UTF-8", "submit plain16.csv": "save it as CSV UTF-8",
		"submit one.jsonl --rejects no/such/dir": "--rejects: ",
	} {
		_, errs, code := w.cli(strings.Fields(args)...)
		if code != cli.ExitUsage || !strings.Contains(errs, says) || strings.Contains(errs, "strconv") || strings.Contains(errs, "arg(s)") {
			t.Errorf("%s: exit %d %s", args, code, errs)
		}
	}
	for _, args := range []string{"status --since 1d", "status --since 1d12h", "proxies list --within 3d", "watch --type order.*", "watch --type proxy.expired,order.delivered"} {
		if _, errs, code := w.cli(strings.Fields(args)...); code == cli.ExitUsage {
			t.Errorf("%s: %s", args, errs)
		}
	}
	for _, file := range []string{"note.txt", "empty.db"} {
		if _, errs, code := w.cli("ledger", "verify", file); code != cli.ExitFailed || !strings.Contains(errs, file+" is no ledger") || strings.Contains(errs, "restore") {
			t.Errorf("%s: exit %d %s", file, code, errs)
		}
	}
}

// The error omits the path if it may be a pasted secret.
func TestASecretFileErrorNamesTheAccountAndThePath(t *testing.T) {
	t.Parallel()
	w := &world{t: t, dir: t.TempDir()}
	for secretFile, named := range map[string]bool{"missing.secret": true, "open.secret": true, "Zm9vYmFyLXNlY3JldA": false, "s3cr3t/With+Slash==": false} {
		w.write("perennial.yaml", "accounts: {main: {base_url: 'http://127.0.0.1:1', app_id: sbx_app_a, secret_file: '"+secretFile+"'}}", 0o600)
		w.write("open.secret", "x", 0o644)
		if err := os.Chmod(filepath.Join(w.dir, "open.secret"), 0o644); err != nil {
			t.Fatal(err)
		}
		_, errs, code := w.cli("wallet")
		if code != cli.ExitUsage || !strings.Contains(errs, "account main: the secret file") || strings.Contains(errs, secretFile) != named {
			t.Errorf("%s: exit %d %s", secretFile, code, errs)
		}
	}
}

// The error for a NATS address names the option to change.
func TestAnAddressInUseSaysWhatToDo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	_, line := w.run()
	other := &world{t: t, dir: t.TempDir()}
	if _, errs, code := other.cli("run", "--nats-listen", strings.TrimPrefix(line.NATS, "nats://"), "--http", "127.0.0.1:0"); code != cli.ExitFailed || !strings.Contains(errs, "say another address with --nats-listen or nats.listen") {
		t.Errorf("exit %d %s", code, errs)
	}
}

// The log and /readyz say that the provider refused the secret, and not that it is unreachable.
func TestAWrongSecretIsRefusedAndNotUnreachable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.write("main.secret", "wrong", 0o600)
	run, line := w.run()
	await(t, "the log says refused", func() bool { return strings.Contains(run.stderr.String(), "the provider refused: ") })
	if page, err := w.get(line.HTTP + "/readyz"); err != nil || strings.Contains(page+run.stderr.String(), "does not answer") {
		t.Errorf("%s %v\n%s", page, err, run.stderr)
	}
}
