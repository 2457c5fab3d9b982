package crashtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/cli"
)

func examined(t testing.TB, w *world, wantCode int) map[string]cli.DoctorFinding {
	t.Helper()
	out, errs, code := w.cli("doctor", "-o", "json")
	if code != wantCode {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
	found := map[string]cli.DoctorFinding{}
	for line := range strings.Lines(out) {
		var f cli.DoctorFinding
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatal(err)
		}
		found[f.Check] = f
	}
	return found
}

// On a working machine every check is ok. A failed check names the problem and what to do.
func TestDoctor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.run()
	found := examined(t, w, 0)
	for _, check := range []string{"signature", "clock", "environment", "scope orders:read", "nats", "streams", "disk", "ledger"} {
		if !found[check].OK {
			t.Errorf("%s: %+v", check, found[check])
		}
	}
	w.control("POST", "/clock", []byte(`{"offset_seconds":120}`))
	if f := examined(t, w, cli.ExitFailed)["clock"]; f.OK || !strings.Contains(f.Do, "NTP") {
		t.Errorf("two minutes off: %+v", f)
	}
	w.control("POST", "/clock", []byte(`{"offset_seconds":3600}`))
	if f := examined(t, w, cli.ExitFailed)["clock"]; f.OK || !strings.Contains(f.Seen, "stale_timestamp") {
		t.Errorf("an hour off: %+v", f)
	}
	w.control("POST", "/clock", []byte(`{"offset_seconds":0}`))
	w.control("POST", "/keys", []byte(`{"app_id":"`+worldAppID+`","revoked":true}`))
	if f := examined(t, w, cli.ExitFailed)["signature"]; f.OK || !strings.Contains(f.Seen, "api_key_revoked") {
		t.Errorf("a revoked key: %+v", f)
	}
}

// A ledger of another account is found before `run` refuses it.
func TestTheDoctorFindsALedgerOfAnotherAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	run, line := w.run()
	awaitReady(t, line)
	w.stopped(run)
	path := filepath.Join(w.dir, "perennial.yaml")
	config, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	w.write("perennial.yaml", strings.ReplaceAll(string(config), worldAppID, "sbx_app_other"), 0o600)
	w.write("main.secret", "second-canary-9dK4", 0o600)
	if f := examined(t, w, cli.ExitFailed)["ledger"]; f.OK || !strings.Contains(f.Seen, "it belongs to account acc_alpha") {
		t.Errorf("%+v", f)
	}
}

// The doctor reports impossible replicas of each configured account before a run fails on them.
func TestTheDoctorOfAllAccountsSaysReplicasThatCannotBe(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	n := newNATSProcess(t, w)
	n.start("pw")
	w.write("other.secret", "second-canary-9dK4", 0o600)
	account := "{base_url: " + w.sandbox.Sandbox + ", app_id: "
	w.write("perennial.yaml", "data_dir: ./data\nnats: {url: \""+n.url()+"\", sync_always: true}\nhttp: {listen: 127.0.0.1:0}\naccounts:\n  main: "+account+worldAppID+", secret_file: main.secret}\n  other: "+account+"sbx_app_other, secret_file: other.secret, replicas: 3}\n", 0o600)
	out, errs, code := w.cli("doctor", "-o", "json")
	if code != cli.ExitFailed {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(out) {
		var f cli.DoctorFinding
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatal(err)
		}
		seen[f.Account] = true
		if bad := f.Account == "other" && f.Check == "replicas"; f.OK == bad {
			t.Errorf("%+v", f)
		}
	}
	if !seen["main"] || !seen["other"] {
		t.Errorf("accounts %v", seen)
	}
}

// An event above max_payload can never be published, and it blocks every event after it.
func TestTheDoctorReportsAMaxPayloadBelowAFactsSize(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	n := newNATSProcess(t, w)
	w.configure(n.url(), "")
	w.saysItSyncs()
	n.more = "max_payload: 65536"
	n.start("pw")
	if f := examined(t, w, cli.ExitFailed)["max_payload"]; f.OK || !strings.Contains(f.Seen, "64 KiB") || !strings.Contains(f.Do, "1MB") {
		t.Errorf("%+v", f)
	}
	n.kill()
	n.more = ""
	n.start("pw")
	if f, said := examined(t, w, cli.ExitDone)["max_payload"]; said {
		t.Errorf("a server as it comes: %+v", f)
	}
}

// The key is revoked, the account is suspended, a read fails for another reason than permission, or
// the account is paused. The doctor says what to do about each, and nothing about the others.
func TestTheDoctorSaysWhatKeepsTheAccountFromSending(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.run()
	says := func(check, seen, do string) {
		t.Helper()
		if f := examined(t, w, cli.ExitFailed)[check]; f.OK || !strings.Contains(f.Seen, seen) || !strings.Contains(f.Do, do) {
			t.Errorf("%s: %+v", check, f)
		}
	}
	w.fault(map[string]any{"method": "GET", "path": "/api/v1/offers", "fault": "error_before"})
	says("scope offers:read", "HTTP 500", "call this again")

	w.mustCLI("account", "pause", "--reason", "prices change")
	says("paused", "prices change", "perennial accounts resume")
	w.mustCLI("account", "resume", "--reason", "they have changed")

	w.control("POST", "/accounts", []byte(`{"account_id":"acc_alpha","status":"suspended"}`))
	says("account", "suspended", "ask the provider")
	w.mustCLI("renew", "px_1", "--id", "while-suspended")
	await(t, "the pause", func() bool {
		out, _, _ := w.cli("account", "show")
		return strings.Contains(out, "insufficient_scope")
	})
	says("paused", "insufficient_scope", "ask why the account may not write")
	w.control("POST", "/accounts", []byte(`{"account_id":"acc_alpha","status":"active"}`))
	await(t, "the renewal", func() bool {
		out, _, _ := w.cli("status", "while-suspended")
		return strings.Contains(out, "completed")
	})
	examined(t, w, cli.ExitDone)

	w.control("POST", "/keys", []byte(`{"app_id":"`+worldAppID+`","revoked":true}`))
	says("signature", "api_key_revoked", "perennial accounts rotate")
}
