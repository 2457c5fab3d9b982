package daemon

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/sirupsen/logrus"

	"perennial/cmd/perennial/internal/cluster"
	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/verbs"
	"perennial/cmd/perennial/internal/web"
	"perennial/cmd/perennial/internal/webhook"
	"perennial/jobs"
	"perennial/jobs/command"
	"perennial/ledger/connlimit"
	"perennial/queue"
	"perennial/queue/letters"
	"perennial/queue/publish"
	"perennial/queue/service"
	"perennial/schedules/plans"
	"perennial/upstream"
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

// guarded protects against DNS rebinding: a website could point its own name to this server, and
// its scripts could read the responses. For a foreign host name, guarded serves only health,
// without reasons. Responses must not be cached or shown in frames.
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

// livez returns 200 unless a part of the process is stuck. Only a restart helps a stuck process.
// After the restart, the work in progress continues.
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

// stuck returns which part of the account is stuck. It returns "" if none is. Commands that wait
// for NATS are not stuck.
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

// Failing yields the name and the detail of each check of an account that fails.
func (r Readiness) Failing(account string) iter.Seq2[string, string] {
	return func(yield func(name, detail string) bool) {
		for _, a := range r.Accounts {
			for _, c := range a.Checks {
				if a.Account == account && !c.OK && !yield(c.Name, c.Detail) {
					return
				}
			}
		}
	}
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

func sameToken(have, want string) bool {
	a, b := sha256.Sum256([]byte(have)), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// KeyFile returns the path of the key that signs sessions and one-time links.
func KeyFile(dataDir string) string { return filepath.Join(dataDir, "web.key") }

// LoginCode returns a code that signs a person in to the web UI of the runner that uses
// dataDir.
func LoginCode(dataDir string, p web.Person) (string, error) {
	key, err := web.Key(KeyFile(dataDir), false)
	if err != nil {
		return "", err
	}
	return web.Link(key, p, time.Now()), nil
}

func newPages(h *Host) (*web.Server, error) {
	key, err := web.Key(KeyFile(h.Config.DataDir), true)
	if err != nil {
		return nil, err
	}
	accounts := make([]web.Account, 0, len(h.Accounts))
	for _, a := range h.Accounts {
		accounts = append(accounts, pageAccount{a})
	}
	identity, err := h.Config.HTTP.Identity.OfPages()
	if err != nil {
		return nil, err
	}
	return web.New(web.Config{
		Accounts: accounts, Key: key, Identity: identity, ServesHost: h.Config.HTTP.ServesHost, Clock: time.Now, Log: h.log.WithField("part", "web"), Version: config.Version,
		Runners: h.runnersShown,
		Tokens: func() ([]web.Token, error) {
			if h.Config.HTTP.TokensFile == "" {
				return nil, nil
			}
			return web.ReadTokens(h.Config.ResolvePath(h.Config.HTTP.TokensFile))
		},
	}), nil
}

// pageAccount implements web.Account.
type pageAccount struct{ *account }

func (p pageAccount) AccountName() string { return p.Name }

func (p pageAccount) Role() string { return p.role() }

func (p pageAccount) Health() []web.Check { return p.checks() }

func (p pageAccount) Letters(ctx context.Context, after uint64) iter.Seq2[web.Letter, error] {
	return func(yield func(web.Letter, error) bool) {
		for l, err := range p.letters().After(ctx, after) {
			if !yield(letterShown(l), err) {
				return
			}
		}
	}
}

func (p pageAccount) CountLetters(ctx context.Context) (int64, error) {
	if down := p.host.Queue.Down(); down != "" {
		return 0, errors.New(down) // a page must not wait until NATS responds again
	}
	return p.letters().Count(ctx)
}

func (p pageAccount) Letter(ctx context.Context, seq uint64) (web.Letter, error) {
	l, err := p.letters().Read(ctx, seq)
	if errors.Is(err, letters.ErrNone) {
		err = web.ErrNoLetter
	}
	return letterShown(l), err
}

// Requeue refuses content that the runner would refuse. The journal records who publishes the
// command before it is published. The page publishes the content itself. If a service request
// published the content, NATS users without permission to publish could publish through that
// request.
func (p pageAccount) Requeue(ctx context.Context, seq uint64, content []byte, by, reason string) error {
	p.corrections.Lock()
	defer p.corrections.Unlock()
	letter, err := p.letters().Read(ctx, seq)
	if errors.Is(err, letters.ErrNone) {
		return web.ErrNoLetter
	}
	if err != nil {
		return err
	}
	binding, err := p.Ledger().Binding(ctx)
	if err != nil {
		return err
	}
	kind := queue.KindOf(p.Name, letter.Dead.Subject)
	if err := queue.ValidKind(kind); err != nil {
		return err
	}
	if _, err := command.Parse(jobs.KindOf(kind), content, command.Rules{Environment: upstream.Environment(binding.Environment), CIDRField: p.host.Config.Accounts[p.Name].CIDRField}); err != nil {
		return err
	}
	var noted verbs.Changed
	if err := p.Ask(ctx, verbs.DeadRequeue.Name, verbs.DeadRequest{Seq: seq, By: by, Reason: reason, ContentHash: command.MessageHash(content)}, &noted); err != nil {
		return err
	}
	if err := publish.New(p.js()).Publish(ctx, p.Name, publish.Outgoing{Kind: kind, Data: content}); err != nil {
		return fmt.Errorf("publish it: %w; whether it was published is not known, and the dead letter is still there: send the same id again", err)
	}
	if err := p.letters().Drop(ctx, seq); err != nil && !errors.Is(err, letters.ErrNone) {
		return fmt.Errorf("it is published, and its dead letter cannot be removed: %w", err)
	}
	return nil
}

// webhooksOf implements web.Webhooks.
type webhooksOf struct{ *account }

func (p pageAccount) Webhooks() web.Webhooks { return webhooksOf(p) }

func (p webhooksOf) List(ctx context.Context) ([]webhook.Status, error) {
	return WebhooksOf(ctx, p.host.Config, p.host.Queue, p.Name)
}

func (p webhooksOf) named(name string) (config.Webhook, error) {
	w, ok := p.host.Config.Webhook(name)
	if !ok || w.Account != p.Name {
		return w, fmt.Errorf("no webhook %.80q is configured for this account", name)
	}
	return w, nil
}

func (p webhooksOf) Test(ctx context.Context, name string) (string, error) {
	w, err := p.named(name)
	if err != nil {
		return "", err
	}
	r, host, _, err := TestWebhook(ctx, p.host.Config, w)
	if err != nil {
		return "", err
	}
	said := fmt.Sprintf("%s: %s, %s after %d ms", host, r.Outcome, r.Reason, r.Took.Milliseconds())
	if r.Outcome != webhook.Delivered {
		return "", errors.New(said)
	}
	return said, nil
}

func (p webhooksOf) Replay(ctx context.Context, name string, seq uint64, since time.Time, by, reason string) (string, error) {
	w, err := p.named(name)
	if err != nil {
		return "", err
	}
	r, err := ReplayWebhook(ctx, p.host.Queue, w, Replay{seq, since, by, reason})
	if err != nil {
		return "", err
	}
	return r.String(), nil
}

func letterShown(l letters.Letter) web.Letter {
	return web.Letter{Seq: l.Seq, Published: l.Dead.Published, Subject: l.Dead.Subject, Reason: l.Dead.Reason, Bytes: len(l.Dead.Data), Text: l.Dead.Text()}
}

func (h *Host) runnersShown(ctx context.Context) ([]web.Runner, error) {
	all, err := h.liveRunners(ctx)
	shown := make([]web.Runner, 0, len(all))
	for _, n := range all {
		one := web.Runner{Name: n.Node, Version: n.Version, StartedAt: n.StartedAt, SaidAt: n.SaidAt, Stopping: n.Stopping, This: n.Node == h.name.Get()}
		for _, a := range n.Accounts {
			one.Accounts = append(one.Accounts, web.RunnerAccount(a))
		}
		shown = append(shown, one)
	}
	return shown, err
}

func (p pageAccount) Reveal(ctx context.Context, proxyID string) (all []web.Credential, err error) {
	if p.Client == nil {
		return nil, errors.New("this runner has no client of the provider: ask on the page of another runner, or perennial proxies get --reveal where the secret is")
	}
	c, err := p.Client.Reveal(ctx, proxyID)
	if err != nil {
		return nil, err
	}
	for _, x := range [][2]string{{"Host", c.Host()}, {"Port", c.Port()}, {"Username", c.Username()}, {"Password", c.Password()}, {"SOCKS5 URI", c.SOCKS5URI()}, {"Connection", c.Connection()}} {
		if x[1] != "" {
			all = append(all, web.NewCredential(x[0], x[1]))
		}
	}
	return all, nil
}

// Ask asks the account's leader, on whichever machine it runs.
func (p pageAccount) Ask(ctx context.Context, verb string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	data, err := service.Request(ctx, p.js(), p.Name, verb, body)
	if refused, ok := errors.AsType[*service.Error](err); ok {
		if refused.Code == CodeUnconfirmed {
			return fmt.Errorf("%w: %s", web.ErrUnconfirmed, refused.Description)
		}
		return errors.New(refused.Description)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return web.ErrNoAnswer
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("the answer to %s cannot be read: %w", verb, err)
	}
	return nil
}

func (p pageAccount) Schedules() []plans.Schedule { return p.host.Config.SchedulesOf(p.Name) }

func (p pageAccount) ReadList(name string) ([]byte, error) { return p.host.Config.ReadListFile(name) }
