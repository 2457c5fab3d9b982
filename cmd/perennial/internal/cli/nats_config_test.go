package cli

import (
	"bytes"
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write docs/operations/nats-roles.conf anew")

// rolesFile is the output of nats-config for one user of each role, to be copied.
const rolesFile = "../../../../docs/operations/nats-roles.conf"

// TestEachRoleDoesWhatItIsFor and TestNoRoleReachesWhatIsNotItsOwn run servers with the output of
// nats-config.
func TestTheRolesOfThePageAreThoseOfTheProgram(t *testing.T) {
	page, err := os.ReadFile(rolesFile)
	if err != nil && !*update {
		t.Fatal(err)
	}
	file, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	file += "/" + rolesFile
	t.Chdir(t.TempDir())
	text := `nats:
  url: nats://127.0.0.1:4222
  users:
`
	for _, u := range [][2]string{{"app", "producer"}, {"books", "subscriber"}, {"board", "viewer"}, {"ops", "operator"}} {
		if err := os.WriteFile(u[0]+".password", []byte("a-password-of-"+u[0]), 0o600); err != nil {
			t.Fatal(err)
		}
		text += "    - {user: " + u[0] + ", password_file: " + u[0] + ".password, roles: [{role: " + u[1] + ", accounts: [main]}]}\n"
	}
	text += "accounts:\n  main: {base_url: \"https://api.example.com\", app_id: sbx_app_1, secret_file: main.secret}\n"
	if err := os.WriteFile("perennial.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := (Program{Args: []string{"nats-config"}, Stdout: &out, Stderr: &errs}).Main(t.Context()); code != ExitDone {
		t.Fatalf("exit %d %s", code, errs.String())
	}
	if *update {
		if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if out.String() != string(page) {
		t.Errorf("%s is not what nats-config prints: go test ./cmd/perennial/internal/cli -run RolesOfThePage -update", rolesFile)
	}
}
