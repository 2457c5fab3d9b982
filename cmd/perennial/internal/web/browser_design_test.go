//go:build check

package web

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"

	"perennial/cmd/perennial/internal/browsertest"
)

// axe finds no problem on the page of the design system, light or dark. The page is never wider
// than the screen, and a shortened ID has its button.
func TestBrowserDesignSystem(t *testing.T) {
	h, page := newRig(t), designPage(t)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /design", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, page) })
	mux.Handle("/", h.pages)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	ctx := browsertest.Chromium(t)
	for _, width := range []int64{360, 1280, 2560} {
		for _, scheme := range []string{"light", "dark"} {
			browsertest.Does(ctx, t, browsertest.LooksLike(width, scheme), chromedp.Navigate(server.URL+"/design"), browsertest.Holds(`document.querySelector("button.copy") !== null && document.querySelector(".chart canvas") !== null`))
			if found := browsertest.Axe(ctx, t); len(found) > 0 {
				t.Errorf("at %d px, %s: %q", width, scheme, found)
			}
		}
	}
}
