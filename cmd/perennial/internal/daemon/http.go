// The HTTP server: health, metrics and the dashboard.

package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"perennial/jobs"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/fact"
)

// httpHost serves health, metrics and the dashboard. None of them shows a
// credential: the ledger they read from holds none.
type httpHost struct {
	host     *Host
	server   *http.Server
	listener net.Listener
}

func startHTTP(h *Host) (*httpHost, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", h.Config.HTTP.Listen)
	if err != nil {
		return nil, fmt.Errorf("listen for http on %s: %w\nsay another address with --http, such as 127.0.0.1:0", h.Config.HTTP.Listen, err)
	}
	s := &httpHost{host: h, listener: listener}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), metrics{h}, h.meter)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", s.livez)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.HandleFunc("GET /nodes", s.nodes)
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true, Registry: registry}))
	mux.HandleFunc("GET /{$}", s.dashboard)
	s.server = &http.Server{Handler: s.guarded(mux), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute}
	go func() {
		if err := s.server.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
			h.log.WithError(err).Error("health and metrics are not served any more")
		}
	}()
	return s, nil
}

// guarded refuses a page that is asked for under a name that is not this machine's: a
// site may have its own name point here, and its scripts would read what the page
// shows. Health alone is answered under any name, without its reasons. Pages are not
// cached and not framed.
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

func (s *httpHost) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		_ = s.server.Close()
	}
}

// livez is 200 unless a part of the process is stuck: only another start helps then, and
// what was under way goes on behind it.
func (s *httpHost) livez(w http.ResponseWriter, _ *http.Request) {
	for _, a := range s.host.Accounts {
		if why := a.stuck(time.Now()); why != "" {
			s.host.log.WithField("account", a.Name).Error("stuck: " + why)
			http.Error(w, "stuck: "+why, http.StatusServiceUnavailable)
			return
		}
	}
	fmt.Fprintln(w, "ok")
}

// stuckAfter is for how long one commit, or one batch of commands on its way into the
// ledger, may take: a writer gives up waiting for another process's lock after seconds.
const stuckAfter = 2 * time.Minute

// stuck says which part of the account does not go on, "" when none is stuck. Commands that
// wait for NATS are not: they go on when it is there again.
func (a *account) stuck(now time.Time) string {
	if since := a.Ledger().WorkingSince(); !since.IsZero() && now.Sub(since) > stuckAfter {
		return "the ledger's writer is at one commit since " + since.UTC().Format(time.RFC3339)
	}
	a.mu.Lock()
	runner := a.runner
	a.mu.Unlock()
	if runner == nil || a.host.probed.get(needsNATS) != "" || a.host.probed.get(needsStreams+a.Name) != "" {
		return ""
	}
	if since := runner.TakingSince(); !since.IsZero() && now.Sub(since) > stuckAfter {
		return "commands that were read are not in the ledger since " + since.UTC().Format(time.RFC3339)
	}
	return ""
}

// Readiness is what /readyz?verbose answers.
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

// readyz is 200 when every account works, else 503 with the reasons of each, which
// are left out under a name that is not served.
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
			if !said[c.Detail] { // without NATS several checks have the same reason
				fmt.Fprintf(&text, "%s: %s\n", a.Name, c.Detail)
			}
			said[c.Detail] = true
		}
		out.Accounts = append(out.Accounts, one)
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
		said = "not ready\n" // a load balancer may use any name, and so may another site
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = fmt.Fprint(w, said)
}

// dashboardRows is how many operations the page shows of each account.
const dashboardRows = 50

type dashboardAccount struct {
	AccountView
	Role       string // active or standby
	Balance    ledger.Balance
	Counts     map[fact.State]int64
	Operations []inspect.OperationStatus
}

var dashboardPage = template.Must(template.New("dashboard").Funcs(template.FuncMap{"money": fact.Amount, "reconciled": ReconciledText}).Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="5"><meta name="viewport" content="width=device-width">
<title>Perennial</title>
<style>
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#1b2b24;background:#fbfcfa}
h1{font-size:1.3rem} h2{font-size:1.1rem;margin-top:2rem} table{border-collapse:collapse;width:100%}
td,th{text-align:left;padding:.25rem .75rem .25rem 0;border-bottom:1px solid #dfe6e1;vertical-align:top} .n{text-align:right}
.bad{color:#a02020} .muted{color:#5b6b63}
</style>
<h1>Perennial</h1>
{{range .}}<h2>{{.Account}} <span class="muted">{{.Environment}} {{.AccountID}}</span></h2>
{{if eq .Role "standby"}}<p>Standby: another runner holds the account, and this one follows.</p>{{end}}
{{if .NotReady}}<p class="bad">Not ready: {{.NotReady}}</p>{{end}}
{{if .ShortOfMoney}}<p class="bad">Short of money: the wallet could not pay for the last operation.</p>{{end}}
{{range .Paused}}<p class="bad">Paused ({{.Scope}}, {{.Cause}}): {{.Detail}}</p>{{end}}
<p>Wallet {{money .Balance.WalletCents .Balance.Currency}} · charged {{money .Balance.ChargedCents .Balance.Currency}} · refunded {{money .Balance.RefundedCents .Balance.Currency}} ·
suspense {{money .Balance.SuspenseCents .Balance.Currency}} · journal {{.Head.Seq}}, published {{.Published}}</p>
<p{{if and .Reconciled.Findings (not .Reconciled.OK)}} class="bad"{{end}}>Reconciled: {{reconciled .Reconciled .Currency}}</p>
<p>{{range $state, $n := .Counts}}{{$state}} {{$n}} &nbsp; {{end}}</p>
<table><tr><th>Operation<th>Kind<th>State<th class="n">Attempts<th class="n">Charged<th class="n">Refunded<th>Reason</tr>
{{range .Operations}}<tr><td>{{.OperationID}}<td>{{.Kind}}<td>{{.State}}<td class="n">{{.Attempts}}<td class="n">{{money .ChargedCents .Currency}}<td class="n">{{money .RefundedCents .Currency}}<td>{{.Reason}}</tr>
{{end}}</table>{{end}}</html>`))

func (s *httpHost) dashboard(w http.ResponseWriter, r *http.Request) {
	views := make([]dashboardAccount, 0, len(s.host.Accounts))
	for _, a := range s.host.Accounts {
		v, err := a.dashboard(r.Context())
		if err != nil {
			http.Error(w, "the ledger of "+a.Name+" cannot be read: "+err.Error(), http.StatusInternalServerError)
			return
		}
		views = append(views, v)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err := dashboardPage.Execute(w, views); err != nil {
		s.host.log.WithError(err).Debug("a dashboard was not sent whole")
	}
}

func (a *account) dashboard(ctx context.Context) (v dashboardAccount, err error) {
	if v.AccountView, err = a.show(ctx, struct{}{}); err != nil {
		return v, err
	}
	v.Role = a.role()
	if v.Balance, err = a.Ledger().Balance(ctx, a.Name); err != nil {
		return v, err
	}
	if v.Counts, err = a.Ledger().StateCounts(ctx); err != nil {
		return v, err
	}
	v.Operations, err = inspect.List(ctx, a.Ledger(), inspect.ListQuery{Limit: dashboardRows})
	return v, err
}

// ReconciledText is the last reconciliation in a few words.
func ReconciledText(x jobs.LastReconciliation, currency string) string {
	text := "not yet in this run"
	switch {
	case x.At.IsZero():
	case x.OK && x.Quiet:
		text = "to the cent, " + humanize.Time(x.At)
	case x.OK:
		text = "as far as what is under way lets one see, " + humanize.Time(x.At)
	default:
		text = fmt.Sprintf("%s, the wallet is %s off, %s: perennial ledger reconcile", english.Plural(x.Findings, "finding", ""), fact.Amount(x.DifferenceCents, currency), humanize.Time(x.At))
	}
	if x.Failed != "" {
		text += "; the latest attempt failed: " + x.Failed
	}
	return text
}
