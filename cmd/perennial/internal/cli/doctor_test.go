package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
)

// TestTheDoctorSeesATakenAddress before `perennial run` does.
func TestTheDoctorSeesATakenAddress(t *testing.T) {
	t.Chdir(t.TempDir())
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	examined := func(nats, http string) map[string]DoctorFinding {
		text := fmt.Sprintf("nats: {listen: %q}\nhttp: {listen: %q}\naccounts:\n  main: {base_url: \"http://127.0.0.1:1\", app_id: sbx_app_1, secret_file: main.secret}\n", nats, http)
		if err := os.WriteFile("perennial.yaml", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		_ = Program{Args: []string{"doctor", "-o", "json"}, Stdout: &out, Stderr: &bytes.Buffer{}}.Main(t.Context())
		found := map[string]DoctorFinding{}
		for line := range strings.Lines(out.String()) {
			var f DoctorFinding
			if err := json.Unmarshal([]byte(line), &f); err != nil {
				t.Fatal(err)
			}
			found[f.Check] = f
		}
		return found
	}
	at := taken.Addr().String()
	found := examined(at, at)
	for check, key := range map[string]string{"nats": "nats.listen", "http": "http.listen"} {
		if f := found[check]; !f.OK || !f.Warning || !strings.Contains(f.Seen, at) || !strings.Contains(f.Do, key) {
			t.Errorf("%s: %+v", check, f)
		}
	}
	found = examined("127.0.0.1:0", "127.0.0.1:0")
	if _, said := found["http"]; said || !found["nats"].OK || found["nats"].Warning {
		t.Errorf("%+v", found)
	}
}
