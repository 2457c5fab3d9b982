package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

// The doctor sees the taken address before `perennial run` fails on it.
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

// The advice is about the certificate, and not about base_url.
func TestTheDoctorSaysWhatToDoAboutACertificate(t *testing.T) {
	t.Chdir(t.TempDir())
	provider := httptest.NewUnstartedServer(http.NotFoundHandler())
	provider.Config.ErrorLog = log.New(io.Discard, "", 0) // of the failing handshake
	provider.StartTLS()
	defer provider.Close()
	for name, text := range map[string]string{
		"perennial.yaml": "nats: {listen: \"127.0.0.1:0\"}\nhttp: {listen: \"127.0.0.1:0\"}\naccounts:\n  main: {base_url: \"" + provider.URL + "\", app_id: sbx_app_1, secret_file: main.secret}\n", "main.secret": "hunter2",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	_ = Program{Args: []string{"doctor"}, Stdout: &out, Stderr: &bytes.Buffer{}}.Main(t.Context())
	if text := out.String(); !strings.Contains(text, "NOT OK  certificate ") || !strings.Contains(text, "-> if its authority is meant to be private, name that authority's file in accounts.main.ca_file") || strings.Contains(text, "base_url") {
		t.Error(text)
	}
}
