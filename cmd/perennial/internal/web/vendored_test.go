package web

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
)

// Each file of vendor/ has its recorded checksum, and is served.
func TestVendoredFilesAreAsPublished(t *testing.T) {
	list, err := vendored.ReadFile("vendor/SHA256SUMS")
	check(t, err)
	if !strings.Contains(string(list), "# uPlot 1.6.32,") || !strings.Contains(string(list), "# sha512-KIMVnG68zvu5XXUbC4LQEPnhwOxBuLyW1AHtpm6IKTXImkbLgkMy+jabjLgSLMasNuGGzQm/ep3tOkyTxpiQIw==\n") {
		t.Error("the version or its integrity is not written down")
	}
	sums := map[string]string{}
	for line := range strings.Lines(string(list)) {
		if sum, name, ok := strings.Cut(strings.TrimSpace(line), "  "); ok && !strings.HasPrefix(line, "#") {
			sums[name] = sum
		}
	}
	files, err := vendored.ReadDir("vendor")
	check(t, err)
	h := newRig(t)
	for _, f := range files {
		if f.Name() == "SHA256SUMS" {
			continue
		}
		text, err := vendored.ReadFile("vendor/" + f.Name())
		check(t, err)
		sum := sha256.Sum256(text)
		if sums[f.Name()] != hex.EncodeToString(sum[:]) {
			t.Errorf("%s is not as it was published", f.Name())
		}
		delete(sums, f.Name())
		code, body, header := h.get("/static/vendor/" + f.Name())
		if code != http.StatusOK || body != string(text) || header.Get("ETag") == "" {
			t.Errorf("%s is served with %d", f.Name(), code)
		}
		if strings.HasSuffix(f.Name(), ".js") && !strings.HasPrefix(header.Get("Content-Type"), "text/javascript") {
			t.Errorf("%s is served as %s: no browser takes it as a module", f.Name(), header.Get("Content-Type"))
		}
	}
	if len(sums) > 0 {
		t.Errorf("not there: %v", sums)
	}
	for _, path := range []string{"/static/vendor/none.js", "/static/", "/static/vendor", "/static/none.js"} {
		if code, _, _ := h.get(path); code != http.StatusNotFound {
			t.Errorf("%s: %d", path, code)
		}
	}
}
