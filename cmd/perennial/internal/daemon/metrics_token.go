// The token that /metrics asks for, where one is configured.

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

// metricsTokenOf reads the token of http.metrics_token_file, "" where none is configured.
// The file is read each time, so that another token counts at once.
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

// behindToken answers those who send the token, in the Authorization header as a bearer
// token; every request where no token file is configured; none while the file cannot be
// read.
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

// bearerOf is the bearer token of a request, "" for none, or several.
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

// sameToken compares in a time that says nothing of either.
func sameToken(have, want string) bool {
	a, b := sha256.Sum256([]byte(have)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}
