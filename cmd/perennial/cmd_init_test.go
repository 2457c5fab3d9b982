package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestInitWritesAConfigurationThatWorks: what init wrote is what doctor and run
// take; nothing is written over, and nothing stays of a bad answer.
func TestInitWritesAConfigurationThatWorks(t *testing.T) {
	w := newWorld(t, 1)
	w.write("secret.txt", worldSecret+"\n", 0o600)
	if err := os.Remove(filepath.Join(w.dir, "perennial.yaml")); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	good := []string{"init", "--base-url", w.sandbox.Sandbox, "--app-id", worldAppID, "--secret-file", "secret.txt", "--name", "fleet-1"}
	if _, errs, code := w.cli("init", "--base-url", "ftp://nowhere", "--app-id", worldAppID, "--secret-file", "secret.txt", "--name", "fleet-1"); code != exitUsage || !strings.Contains(errs, "base_url") {
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
	if _, errs, code = w.cli(good...); code != exitUsage || !strings.Contains(errs, "not written over") {
		t.Errorf("a second time: exit %d\n%s", code, errs)
	}
	if _, _, code = w.cli("wallet"); code != 0 {
		t.Errorf("the configuration does not work: exit %d", code)
	}
}
