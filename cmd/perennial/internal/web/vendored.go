// Third-party files, served as published. vendor/SHA256SUMS lists their versions and checksums.

package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
)

//go:embed vendor/*
var vendored embed.FS

// serveVendored serves a file of vendor/. Browsers cache the file and revalidate it.
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
