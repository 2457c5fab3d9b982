// The bearer token that /metrics requires, if a token is configured.

package daemon

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"

	"github.com/sirupsen/logrus"

	"perennial/cmd/perennial/internal/config"
)

// metricsTokenOf returns a function that reads http.metrics_token_file. The function returns ""
// if no file is configured. It reads the file at each call, so a new token is valid
// immediately.
func metricsTokenOf(c *config.Config) func() (string, error) {
	if c.HTTP.MetricsTokenFile == "" {
		return func() (string, error) { return "", nil }
	}
	path := c.ResolvePath(c.HTTP.MetricsTokenFile)
	return func() (string, error) {
		token, err := config.ReadSecret(path)
		if err != nil {
			return "", fmt.Errorf("http.metrics_token_file: %w", err)
		}
		return token, nil
	}
}

// behindToken serves requests that have the bearer token in the Authorization header. If no
// token file is configured, it serves every request. While the file cannot be read, it
// refuses every request.
func behindToken(token func() (string, error), log *logrus.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		want, err := token()
		if err != nil {
			log.WithError(err).Error("the token file of /metrics cannot be read: every request for /metrics is refused")
			http.Error(w, "the token of /metrics cannot be read; the log says why", http.StatusInternalServerError)
			return
		}
		if want != "" && !sameToken(bearerOf(r), want) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="metrics"`)
			http.Error(w, "/metrics asks for the token of http.metrics_token_file, as Authorization: Bearer TOKEN", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// bearerOf returns a request's bearer token. It returns "" unless the request has exactly one
// Authorization header.
func bearerOf(r *http.Request) string {
	all := r.Header.Values("Authorization")
	if len(all) != 1 {
		return ""
	}
	scheme, token, _ := strings.Cut(all[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// sameToken compares two tokens in constant time.
func sameToken(have, want string) bool {
	a, b := sha256.Sum256([]byte(have)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}
