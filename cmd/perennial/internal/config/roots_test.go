package config

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perennial/upstream"
)

// The provider is reachable only with ca_file. The error names a ca_file that is missing or has no
// certificate.
func TestAProviderOfAPrivateAuthority(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	dir := t.TempDir()
	for name, text := range map[string][]byte{
		"ca.pem": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), "none.pem": []byte("no certificate\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(caFile string) error {
		path := filepath.Join(dir, "perennial.yaml")
		text := "accounts:\n  main: {base_url: \"" + server.URL + "\", app_id: sbx_app_1, ca_file: \"" + caFile + "\"}\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		client, err := c.Client("main", "the-secret", time.Now, nil)
		if err != nil {
			return err
		}
		defer client.Close()
		_, err = client.Wallet(t.Context())
		return err
	}
	if _, answered := errors.AsType[*upstream.Error](ask("ca.pem")); !answered {
		t.Error("the server is not reached with its own authority")
	}
	for caFile, says := range map[string]string{"": "account.ca_file", "missing.pem": "missing.pem cannot be read", "none.pem": "none.pem has no certificate"} {
		if err := ask(caFile); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", caFile, err)
		}
	}
}
