package crashtest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/daemon"
)

// `doctor` and `run` accept what `init` wrote. `init` overwrites nothing, and leaves no file after
// a bad answer.
func TestInitWritesAConfigurationThatWorks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.write("secret.txt", worldSecret+"\n", 0o600)
	if err := os.Remove(filepath.Join(w.dir, "perennial.yaml")); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	good := []string{"init", "--base-url", w.sandbox.Sandbox, "--app-id", worldAppID, "--secret-file", "secret.txt", "--name", "fleet-1"}
	if _, errs, code := w.cli("init", "--base-url", "ftp://nowhere", "--app-id", worldAppID, "--secret-file", "secret.txt", "--name", "fleet-1"); code != cli.ExitUsage || !strings.Contains(errs, "--base-url") {
		t.Errorf("a bad address: exit %d\n%s", code, errs)
	}
	out, errs, code := w.cli(good...)
	if code != 0 || !strings.Contains(out, "signature") || strings.Contains(out+errs, worldSecret) {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	info, err := os.Stat(filepath.Join(w.dir, "fleet-1.secret"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	text, err := os.ReadFile(filepath.Join(w.dir, "perennial.yaml"))
	if err != nil || strings.Contains(string(text), worldSecret) {
		t.Errorf("the secret stands in the configuration: %v", err)
	}
	if _, errs, code = w.cli(good...); code != cli.ExitUsage || !strings.Contains(errs, "is not overwritten") {
		t.Errorf("a second time: exit %d\n%s", code, errs)
	}
	if _, _, code = w.cli("wallet"); code != 0 {
		t.Errorf("the configuration does not work: exit %d", code)
	}
	_, errs, code = w.cli("init", "--sandbox", "--name", "trial", "--out", "trial.yaml")
	if code != 0 || !strings.Contains(errs, "Next: perennial sandbox --listen 127.0.0.1:8090 --control 127.0.0.1:8091, and in another terminal perennial run --config trial.yaml") {
		t.Errorf("exit %d\n%s", code, errs)
	}
	if out := w.mustCLI("config", "check", "--config", "trial.yaml"); !strings.HasPrefix(out, "trial.yaml is valid: 1 account, 0 schedules") {
		t.Errorf("config check says %s", out)
	}
	var secrets []string
	for _, name := range []string{"one", "two", "three"} {
		secrets = append(secrets, fmt.Sprintf("  %s: {base_url: 'http://127.0.0.1:1', app_id: sbx_app_%s, secret_file: %s.secret}\n", name, name, name))
	}
	w.write("secrets.yaml", "accounts:\n"+strings.Join(secrets, ""), 0o600)
	w.write("two.secret", worldSecret, 0o644)
	_, errs, code = w.cli("config", "check", "--config", "secrets.yaml")
	if code != cli.ExitUsage || !strings.Contains(errs, "has 3 faults") || !strings.Contains(errs, "account one: the secret file one.secret cannot be read") ||
		!strings.Contains(errs, "account three: ") || !strings.Contains(errs, "account two: the secret file two.secret may be read by others (mode 0644): run: chmod 600") {
		t.Errorf("config check passes what `run` refuses: exit %d\n%s", code, errs)
	}
	if out := w.mustCLI("config", "show", "--config", "trial.yaml"); !strings.Contains(out, "http://127.0.0.1:8090") {
		t.Error(out)
	}
	_, errs, code = w.cli("init", "--sandbox", "--base-url", "http://127.0.0.1:21001", "--name", "other", "--out", "other.yaml")
	if code != 0 || !strings.Contains(errs, "Next: perennial sandbox --listen 127.0.0.1:21001 --control 127.0.0.1:21002, and") {
		t.Errorf("on another port: exit %d\n%s", code, errs)
	}
}

// The configuration has NATS users, whose password files only this user can read.
func TestInitMakesAProductionConfigurationThatRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.write("secret.txt", worldSecret+"\n", 0o600)
	if err := os.Remove(filepath.Join(w.dir, "perennial.yaml")); err != nil {
		t.Fatal(err)
	}
	w.write("producer.password", "mine", 0o600)
	args := []string{"init", "--base-url", w.sandbox.Production, "--app-id", liveAppID, "--secret-file", "secret.txt", "--name", "fleet-1", "--no-doctor"}
	if _, errs, code := w.cli(args...); code != cli.ExitUsage || !strings.Contains(errs, "producer.password exists already") || isThere(filepath.Join(w.dir, "perennial.yaml")) {
		t.Errorf("a password file is there: exit %d\n%s", code, errs)
	}
	if err := os.Remove(filepath.Join(w.dir, "producer.password")); err != nil {
		t.Fatal(err)
	}
	_, errs, code := w.cli(args...)
	for _, says := range []string{"wrote perennial.yaml", "wrote fleet-1.secret", "wrote operator.password", "NATS user producer, password in producer.password"} {
		if code != cli.ExitDone || !strings.Contains(errs, says) {
			t.Errorf("exit %d, without %q:\n%s", code, says, errs)
		}
	}
	passwords := map[string]bool{}
	_, line := w.run("--nats-listen", "127.0.0.1:0", "--http", "127.0.0.1:0")
	for _, user := range []string{"operator", "producer", "subscriber", "viewer"} {
		path := filepath.Join(w.dir, user+".password")
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("%v %v", info, err)
		}
		text, err := os.ReadFile(path)
		if err != nil || len(text) < 20 || strings.Contains(errs, strings.TrimSpace(string(text))) {
			t.Errorf("%s: %v", user, err)
		}
		passwords[string(text)] = true
		at := "--nats=" + strings.Replace(line.NATS, "//", "//"+user+":"+strings.TrimSpace(string(text))+"@", 1)
		can := map[string][]string{"operator": {"account", "pause", "--by", "ann", "--reason", "x"}, "producer": {"renew", "px_1", "--id", "r1", "--days", "30"}, "viewer": {"account", "show"}}[user]
		if can == nil {
			continue
		}
		if _, errs, code := w.cli(append(can, at)...); code != cli.ExitDone {
			t.Errorf("%s: exit %d %s", user, code, errs)
		}
	}
	c, err := config.Load(filepath.Join(w.dir, "perennial.yaml"))
	if err != nil || len(c.NATS.Users) != 4 {
		t.Fatal(err, c)
	}
	for _, u := range c.NATS.Users {
		if len(u.Roles) != 1 || u.Roles[0].Role != u.User {
			t.Errorf("user %s has roles %v", u.User, u.Roles)
		}
	}
	if len(passwords) != 4 {
		t.Error("two users have one password")
	}
	if _, errs, code := w.cli("renew", "px_1", "--id", "r2", "--days", "30"); code != cli.ExitDone {
		t.Errorf("on the machine of the run: exit %d %s", code, errs)
	}
}

// A run without a configuration keeps its ledger and its sandbox when a configuration follows.
func TestATrialWithoutAConfigurationGetsSchedules(t *testing.T) {
	t.Parallel()
	w := &world{t: t, dir: t.TempDir()}
	free := []string{"run", "--nats-listen", "127.0.0.1:0", "--http", "127.0.0.1:0"}
	p := start(t, w.dir, free...)
	var line daemon.ReadyLine
	p.ready(&line)
	w.mustCLI("order", "off_us_dallas=1", "--id", "first", "--wait")
	w.stopped(p)
	if _, errs, code := w.cli("init", "--sandbox"); code != cli.ExitDone || !strings.Contains(errs, "Next: perennial run\n") {
		t.Fatalf("exit %d\n%s", code, errs)
	}
	config, err := os.ReadFile(filepath.Join(w.dir, "perennial.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	w.write("perennial.yaml", string(config)+"schedules:\n  - {name: keep, cron: \"0 0 1 1 *\", renew_before: 240h, duration_days: 30}\n", 0o600)
	p = start(t, w.dir, free...)
	p.ready(&line)
	if out := w.mustCLI("status", "first"); !strings.Contains(out, "delivered") {
		t.Errorf("the order of the first run is gone:\n%s", out)
	}
	if out := w.mustCLI("status"); strings.Contains(out, "has changed since") {
		t.Errorf("the configuration is as the runner read it:\n%s", out)
	}
	if out := w.mustCLI("schedules", "run", "keep", "--reason", "try"); !strings.Contains(out, "of keep") {
		t.Errorf("%s", out)
	}
	w.stopped(p)
}
