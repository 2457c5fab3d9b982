package daemon

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"perennial/cmd/perennial/internal/config"
)

// Only the token that is in the file now is accepted. While the file is missing, or other users may
// read it, every request is refused.
func TestMetricsAskForTheirToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "metrics.token")
	put := func(token string, mode os.FileMode) {
		t.Helper()
		must(t, os.WriteFile(file, []byte(token+"\n"), mode))
		must(t, os.Chmod(file, mode))
	}
	log := logrus.New()
	var said strings.Builder
	log.SetOutput(&said)
	handler := func(c *config.Config) http.Handler {
		return behindToken(func() (string, error) { return metricsToken(c) }, log, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "perennial_ready 1") }))
	}
	locked := handler(&config.Config{HTTP: config.HTTP{MetricsTokenFile: file}})
	ask := func(h http.Handler, authorization ...string) (int, string) {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
		r.Header["Authorization"] = authorization
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		text, err := io.ReadAll(w.Result().Body)
		must(t, err)
		if w.Code == http.StatusUnauthorized && !strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("401 with %q", w.Header().Get("WWW-Authenticate"))
		}
		if (w.Code == http.StatusOK) != strings.Contains(string(text), "perennial_ready") {
			t.Errorf("%d %s", w.Code, text)
		}
		return w.Code, string(text)
	}
	put("first", 0o600)
	for authorization, want := range map[string]int{
		"Bearer first": 200, "bearer first": 200, "": 401, "first": 401, "Bearer": 401, "Bearer ": 401, "Bearer firs": 401, "Bearer first2": 401, "Basic first": 401, "Bearer second": 401,
	} {
		if code, _ := ask(locked, authorization); code != want {
			t.Errorf("%q: %d", authorization, code)
		}
	}
	if code, _ := ask(locked, "Bearer first", "Bearer first"); code != http.StatusUnauthorized {
		t.Errorf("two headers: %d", code)
	}
	if code, _ := ask(locked); code != http.StatusUnauthorized {
		t.Errorf("none: %d", code)
	}
	put("second", 0o600)
	if code, _ := ask(locked, "Bearer first"); code != http.StatusUnauthorized {
		t.Errorf("the earlier token: %d", code)
	}
	if code, _ := ask(locked, "Bearer second"); code != http.StatusOK {
		t.Errorf("the token of now: %d", code)
	}
	put("second", 0o644)
	if code, _ := ask(locked, "Bearer second"); code != http.StatusInternalServerError {
		t.Errorf("a file that others may read: %d", code)
	}
	put("", 0o600)
	if code, _ := ask(locked, "Bearer "); code != http.StatusInternalServerError {
		t.Errorf("an empty file: %d", code)
	}
	must(t, os.Remove(file))
	if code, _ := ask(locked, "Bearer second"); code != http.StatusInternalServerError {
		t.Errorf("no file: %d", code)
	}
	if strings.Contains(said.String(), "second") || !strings.Contains(said.String(), "chmod 600") {
		t.Errorf("the log: %s", said.String())
	}
	if code, _ := ask(handler(&config.Config{})); code != http.StatusOK {
		t.Errorf("without a configured token: %d", code)
	}
}
