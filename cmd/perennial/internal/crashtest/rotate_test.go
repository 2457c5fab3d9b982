package crashtest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
)

// The program tries the new key before it changes anything, and keeps the text of the
// configuration. It reports requests that may have been executed under the old App ID instead of
// sending them under the new one.
func TestTrap44AccountRotate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	config := filepath.Join(w.dir, "perennial.yaml")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	before := strings.Replace(string(text), "app_id: "+worldAppID, "app_id: '"+worldAppID+"' # the first key", 1)
	w.write("real.yaml", before, 0o640)
	if err := errors.Join(os.Remove(config), os.Symlink("real.yaml", config), os.Chmod(filepath.Join(w.dir, "real.yaml"), 0o640)); err != nil {
		t.Fatal(err)
	}
	w.write("new.secret", "second-canary-9dK4\n", 0o600)
	w.write("wrong.secret", "not it\n", 0o600)

	run, line := w.run()
	w.fault(map[string]any{"environment": "sandbox", "method": "POST", "path": "/api/v1/*", "fault": "drop_after", "times": 100})
	w.mustCLI("renew", "px_1", "--id", "unsure")
	waitForEvent(t, line.NATS, "operation.waiting", "unsure")
	for _, bad := range []struct {
		args []string
		code int
		say  string
	}{
		{[]string{"--app-id", "sbx_app_alpha2", "--secret-file", "wrong.secret"}, cli.ExitFailed, "does not work"},
		{[]string{"--app-id", "sbx_app_other", "--secret-file", "new.secret"}, cli.ExitFailed, "belongs to acc_alpha"},
		{[]string{"--app-id", "live_app_alpha", "--secret-file", "new.secret"}, cli.ExitUsage, "another environment"},
		{[]string{"--app-id", "sbx_app_alpha2", "--secret-file", "new.secret"}, cli.ExitPerson, "1 operations may have been executed under " + worldAppID},
	} {
		if out, errs, code := w.cli(append([]string{"account", "rotate"}, bad.args...)...); code != bad.code || !strings.Contains(errs, bad.say) {
			t.Errorf("%v: exit %d\n%s%s", bad.args, code, out, errs)
		}
	}
	if now, err := os.ReadFile(config); err != nil || string(now) != before {
		t.Errorf("the configuration was changed by what was refused: %v\n%s", err, now)
	}

	done := decode[cli.RotationResult](t, w.mustCLI("account", "rotate", "--app-id", "sbx_app_alpha2", "--secret-file", "new.secret", "--anyway", "-o", "json"))
	if done.AppID != "sbx_app_alpha2" || done.OldAppID != worldAppID || done.Ambiguous != 1 {
		t.Errorf("%+v", done)
	}
	info, err := os.Stat(filepath.Join(w.dir, done.SecretFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	link, err := os.Lstat(config)
	kept, missing := os.Stat(config)
	if err := errors.Join(err, missing); err != nil || link.Mode()&fs.ModeSymlink == 0 || kept.Mode() != 0o640 {
		t.Errorf("the link was replaced, or its target's mode: %v %v %v", err, link, kept)
	}
	now, err := os.ReadFile(config)
	if err != nil || !strings.Contains(string(now), `app_id: "sbx_app_alpha2" # the first key`) || strings.Contains(string(now), "canary") {
		t.Errorf("%v\n%s", err, now)
	}
	if code := run.terminate(); code != cli.ExitDone {
		t.Errorf("run ended with %d\n%s", code, run.stderr)
	}
	w.control("DELETE", "/faults", nil)
	run, line = w.run()
	waitForEvent(t, line.NATS, "operation.review", "unsure")
	w.mustCLI("renew", "px_2", "--id", "sure", "--wait")
	w.mustCLI("review", "resolve", "unsure/0001", "--charged", "300", "--confirm-amount", "3.00", "--by", "ada", "--reason", "the provider's list")
	run.terminate()
	checkReferee(t, w.charges)
}
