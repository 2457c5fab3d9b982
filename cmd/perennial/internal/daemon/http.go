// The HTTP server: health, metrics and the web UI. /metrics requires a bearer token if one
// is configured.

package daemon

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/sirupsen/logrus"

	"perennial/cmd/perennial/internal/cluster"
	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/web"
	"perennial/ledger/connlimit"
)

// httpHost serves health, metrics and the web UI. No page shows a stored credential, because
// the ledger has none.
type httpHost struct {
	host     *Host
	server   *http.Server
	pages    *web.Server
	listener net.Listener
}

// maxHTTPConnections limits open connections, including up to 200 event streams. At the limit,
// a new connection replaces an idle connection, so that /livez and /readyz stay reachable.
const maxHTTPConnections = 512

func startHTTP(h *Host) (*httpHost, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", h.Config.HTTP.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen for http on %s: %w\nsay another address with --http, such as 127.0.0.1:0", h.Config.HTTP.Listen, err)
	}
	s := &httpHost{host: h, listener: listener}
	h.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), metrics{h})
	token := func() (string, error) { return metricsToken(h.Config) }
	if _, err := token(); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	measured := behindToken(token, h.log, promhttp.HandlerFor(h.registry, promhttp.HandlerOpts{EnableOpenMetrics: true, Registry: h.registry}))
	pages, err := newPages(h)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	s.pages = pages
	mux, root := http.NewServeMux(), http.NewServeMux() // the web UI has its own guards; all other paths are guarded here
	for path, handler := range map[string]http.Handler{"/livez": http.HandlerFunc(s.livez), "/readyz": http.HandlerFunc(s.readyz), "/nodes": http.HandlerFunc(s.nodes), "/metrics": measured} {
		mux.Handle("GET "+path, handler)
		root.Handle(path, s.guarded(mux))
	}
	root.Handle("/", pages)
	limiter := connlimit.New(maxHTTPConnections)
	busy := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := connlimit.Of(r)
		c.Enter()
		defer c.Leave()
		root.ServeHTTP(w, r)
	})
	s.server = &http.Server{Handler: busy, ConnContext: limiter.Connect, ConnState: limiter.Change, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute}
	s.server.RegisterOnShutdown(pages.EndLive)
	go func() {
		if err := s.server.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
			h.log.WithError(err).Error("health and metrics are not served any more")
		}
	}()
	return s, nil
}

// guarded refuses a request with a foreign host name. Otherwise, a website could point its own
// name to this server, and its scripts could read the responses. Under a foreign name, it serves
// only health, without reasons. Responses must not be cached or shown in frames.
func (s *httpHost) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		health := r.URL.Path == "/livez" || r.URL.Path == "/readyz" && r.URL.RawQuery == ""
		if !health && !s.host.Config.HTTP.ServesHost(r.Host) {
			http.Error(w, "this name is not served here: ask by address, or add it to http.hosts", http.StatusForbidden)
			return
		}
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		next.ServeHTTP(w, r)
	})
}

func (s *httpHost) URL() string { return "http://" + s.listener.Addr().String() }

func (s *httpHost) port() int {
	at, _ := s.listener.Addr().(*net.TCPAddr)
	return at.Port
}

func (s *httpHost) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		_ = s.server.Close()
	}
	s.pages.Close()
}

// livez returns 200 unless a part of the process is stuck, so that only a restart helps. A
// restart continues the work in progress.
func (s *httpHost) livez(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set(InstanceHeader, s.host.instance)
	for _, a := range s.host.Accounts {
		if why := a.stuck(time.Now()); why != "" {
			s.host.log.WithField("account", a.Name).Error("stuck: " + why)
			http.Error(w, "stuck: "+why, http.StatusServiceUnavailable)
			return
		}
	}
	fmt.Fprintln(w, "ok")
}

// stuckAfter is how long one commit, or one batch of accepted commands, may take. It is longer
// than a writer's wait for the lock of another process.
const stuckAfter = 2 * time.Minute

// stuck returns which part of the account is stuck, or "". Commands that wait for NATS are not
// stuck.
func (a *account) stuck(now time.Time) string {
	if since := a.Ledger().WorkingSince(); !since.IsZero() && now.Sub(since) > stuckAfter {
		return "the ledger's writer is at one commit since " + since.UTC().Format(time.RFC3339)
	}
	runner := a.snapshot().runner
	if runner == nil || a.host.probed.get(checkNATS) != "" || a.host.probed.get(checkStreams+a.Name) != "" {
		return ""
	}
	if since := runner.TakingSince(); !since.IsZero() && now.Sub(since) > stuckAfter {
		return "commands that were read are not in the ledger since " + since.UTC().Format(time.RFC3339)
	}
	return ""
}

// Readiness is the response of /readyz?verbose.
type Readiness struct {
	Ready    bool               `json:"ready"`
	Accounts []accountReadiness `json:"accounts"`
}

type accountReadiness struct {
	Account string  `json:"account"`
	Ready   bool    `json:"ready"`
	Role    string  `json:"role"` // active or standby
	Checks  []check `json:"checks"`
}

// readyz returns 200 if every account works, otherwise 503 with the reasons. A request with a
// foreign host name gets no reasons.
func (s *httpHost) readyz(w http.ResponseWriter, r *http.Request) {
	out, text := Readiness{Ready: true}, strings.Builder{}
	for _, a := range s.host.Accounts {
		one := accountReadiness{Account: a.Name, Ready: true, Role: a.role(), Checks: a.checks()}
		said := map[string]bool{}
		for _, c := range one.Checks {
			if c.OK {
				continue
			}
			one.Ready, out.Ready = false, false
			if !said[c.Detail] { // without NATS, several checks have the same reason
				fmt.Fprintf(&text, "%s: %s\n", a.Name, c.Detail)
			}
			said[c.Detail] = true
		}
		out.Accounts = append(out.Accounts, one)
	}
	for _, d := range s.host.absent {
		out.Ready = false
		out.Accounts = append(out.Accounts, accountReadiness{Account: d.name, Role: cluster.RoleActive, Checks: []check{d.check}})
		fmt.Fprintf(&text, "%s: %s\n", d.name, d.check.Detail)
	}
	code := http.StatusOK
	if !out.Ready {
		code = http.StatusServiceUnavailable
	} else {
		text.WriteString("ok\n")
	}
	if r.URL.Query().Has("verbose") {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(out)
		return
	}
	said := text.String()
	if !out.Ready && !s.host.Config.HTTP.ServesHost(r.Host) {
		said = "not ready\n" // a load balancer may use any host name, and so may a foreign website
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = fmt.Fprint(w, said)
}

// metricsToken reads http.metrics_token_file. It returns "" if no file is configured. Each
// request reads the file, so a new token is valid immediately.
func metricsToken(c *config.Config) (string, error) {
	if c.HTTP.MetricsTokenFile == "" {
		return "", nil
	}
	token, err := config.ReadSecret(c.ResolvePath(c.HTTP.MetricsTokenFile))
	if err != nil {
		return "", fmt.Errorf("http.metrics_token_file: %w", err)
	}
	return token, nil
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
