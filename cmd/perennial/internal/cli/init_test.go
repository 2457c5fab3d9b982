package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// initIn runs init in the current directory, without its doctor.
func initIn(t *testing.T, secret string, args ...string) (said string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	args = append([]string{"init", "--no-doctor"}, args...)
	code = Program{Args: args, Stdin: strings.NewReader(secret), Stdout: &out, Stderr: &errs}.Main(t.Context())
	return out.String() + errs.String(), code
}

// The error does not mention a line of a file that init has not written.
func TestInitNamesTheFlagThatIsWrong(t *testing.T) {
	t.Chdir(t.TempDir())
	for flag, args := range map[string][]string{
		"--base-url": {"--base-url", "http://api.example.com", "--app-id", "sbx_app_1"},
		"--app-id":   {"--base-url", "https://api.example.com", "--app-id", "app_1"},
	} {
		said, code := initIn(t, "a-secret", append(args, "--secret-file", "-")...)
		if code != ExitUsage || !strings.Contains(said, flag) || strings.Contains(said, "line ") {
			t.Errorf("%v ended with %d: %s", args, code, said)
		}
	}
	if left, _ := os.ReadDir("."); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// The check happens before init writes a file.
func TestInitChecksTheAuthorityOfTheProvider(t *testing.T) {
	t.Chdir(t.TempDir())
	said, code := initIn(t, "a-secret", "--base-url", "https://api.example.com", "--app-id", "sbx_app_1", "--secret-file", "-", "--ca-file", "ca.pem")
	if code != ExitUsage || !strings.Contains(said, "--ca-file") || !strings.Contains(said, "ca.pem cannot be read") {
		t.Errorf("it ended with %d: %s", code, said)
	}
}

// With --secret-file main.secret, init uses that file in place. Otherwise init refuses to overwrite
// it, and its advice works.
func TestInitTakesTheSecretThatIsInItsPlace(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("main.secret", []byte("a-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"--base-url", "https://api.example.com", "--app-id", "sbx_app_1", "--secret-file"}
	said, code := initIn(t, "another", append(args, "-")...)
	if code != ExitUsage || !strings.Contains(said, "main.secret exists already") || !strings.Contains(said, "--name") || !strings.Contains(said, "--secret-file main.secret") {
		t.Errorf("it ended with %d: %s", code, said)
	}
	if said, code = initIn(t, "", append(args, "main.secret")...); code != ExitDone || strings.Contains(said, "wrote main.secret") {
		t.Errorf("it ended with %d: %s", code, said)
	}
	if text, err := os.ReadFile("main.secret"); err != nil || string(text) != "a-secret\n" {
		t.Errorf("the secret is %q now: %v", text, err)
	}
	if err := os.Remove("perennial.yaml"); err != nil {
		t.Fatal(err)
	}
	if said, code = initIn(t, "another", append(args, "-", "--name", "second")...); code != ExitDone {
		t.Errorf("another name ended with %d: %s", code, said)
	}
}
