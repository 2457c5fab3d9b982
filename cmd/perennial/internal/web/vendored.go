// What the pages serve of others, as it was published: vendor/SHA256SUMS has the versions
// and the sums.

package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
)

//go:embed vendor/*
var vendored embed.FS

// serveVendored serves a file of vendor/. Browsers keep it, and ask whether it is the same.
func serveVendored(w http.ResponseWriter, r *http.Request) {
	name := "vendor/" + r.PathValue("file")
	text, err := vendored.ReadFile(name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	sum := sha256.Sum256(text)
	w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:])+`"`)
	http.ServeFileFS(w, r, vendored, name)
}
