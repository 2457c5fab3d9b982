//go:build check

package crashtest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"math/big"
	"net"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"perennial/cmd/perennial/internal/daemon"
)

// The test takes the metrics of three real runners in each state. promtool then plays them to the
// alert rules for as long as each rule waits.
func TestTrap75AlertsPageWhateverStandbysSay(t *testing.T) {
	t.Parallel()
	c := newThree(t)
	c.settles("one works and two follow", func(s sample) bool {
		return len(s.of("role", "active")) == 1 && len(s.of("role", "standby")) == 2 && len(s.of("ready", "1")) == 3
	})
	c.pages()
	c.provider.expire(true)
	c.settles("the provider's certificate has expired", func(s sample) bool { return len(s.of("ready", "0")) == 1 })
	c.pages("PerennialNotReady")
	c.provider.expire(false)
	c.settles("the certificate is a new one", func(s sample) bool { return len(s.of("ready", "1")) == 3 })
	c.provider.silent.Store(true)
	c.settles("the provider is silent", func(s sample) bool { return len(s.of("ready", "0")) == 1 })
	c.pages("PerennialNotReady")
	c.provider.silent.Store(false)
	c.settles("the provider answers", func(s sample) bool { return len(s.of("ready", "1")) == 3 })
	idle := c.now.of("role", "standby")[0]
	c.runs[idle].kill()
	c.settles("a standby is killed", func(s sample) bool { return s[`up{instance="`+idle+`"}`] == "0" })
	c.pages("PerennialRunnerMissing")
	c.nats.kill()
	c.settles("no runner has the account", func(s sample) bool { return len(s.of("role", "standby")) == 2 })
	c.pages("PerennialRunnerMissing", "PerennialNoActiveRunner")
}

// sample is one scrape of all runners: the value of each series.
type sample map[string]string

// of returns the instances with a series of the metric whose value or role is says.
func (s sample) of(metric, says string) (instances []string) {
	for name, value := range s {
		if strings.HasPrefix(name, "perennial_"+metric+"{") && (value == says || strings.Contains(name, `role="`+says+`"`)) {
			_, rest, _ := strings.Cut(name, `instance="`)
			instance, _, _ := strings.Cut(rest, `"`)
			instances = append(instances, instance)
		}
	}
	return instances
}

// three is three runners of one account, with their own NATS server and a provider behind TLS.
type three struct {
	w         *world
	nats      *natsProcess
	provider  *behindTLS
	runs      map[string]*process
	at        map[string]daemon.ReadyLine
	well, now sample
}

func newThree(t testing.TB) *three {
	t.Helper()
	w := newWorld(t, 3)
	c := &three{w: w, nats: newNATSProcess(t, w), provider: newBehindTLS(t, w.sandbox.Sandbox), runs: map[string]*process{}, at: map[string]daemon.ReadyLine{}}
	c.nats.start("pw")
	c.nats.shortLeases()
	w.sandbox.Sandbox = c.provider.server.URL
	w.configure(c.nats.url(), "")
	w.write("ca.pem", string(c.provider.authorities), 0o600)
	for _, name := range []string{"a", "b", "c"} {
		c.runs[name] = startIn(t, w.dir, []string{"SSL_CERT_FILE=" + filepath.Join(w.dir, "ca.pem")}, "run", "--data", "data-"+name)
		var line daemon.ReadyLine
		c.runs[name].ready(&line)
		c.at[name] = line
	}
	return c
}

func (c *three) settles(what string, is func(sample) bool) {
	c.w.t.Helper()
	defer func() {
		if c.w.t.Failed() {
			for name, run := range c.runs {
				run.kill()
				c.w.t.Logf("runner %s: %s", name, run.stderr)
			}
			c.w.t.Logf("%v", c.now)
		}
	}()
	await(c.w.t, what, func() bool {
		c.now = c.scrape()
		return is(c.now)
	})
	if c.well == nil {
		c.well = c.now
	}
}

func (c *three) scrape() sample {
	s := sample{}
	for name, line := range c.at {
		page, err := c.w.get(line.HTTP + "/metrics")
		s[`up{instance="`+name+`"}`] = map[bool]string{true: "1", false: "0"}[err == nil]
		for line := range strings.Lines(page) {
			for _, metric := range []string{"perennial_ready{", "perennial_role{", "perennial_build_info{"} {
				if rest, is := strings.CutPrefix(line, metric); is {
					series, value, _ := strings.Cut(strings.TrimSpace(rest), "} ")
					s[metric+`instance="`+name+`",`+series+"}"] = value
				}
			}
		}
	}
	return s
}

// pages checks which alerts fire. The replayed series are healthy for an hour, and then hold the
// present values for as long as the rules wait.
func (c *three) pages(firing ...string) {
	c.w.t.Helper()
	var file strings.Builder
	rules, err := filepath.Abs(filepath.Join(documents, "alerts.yaml"))
	if err != nil {
		c.w.t.Fatal(err)
	}
	fmt.Fprintf(&file, "rule_files: [%q]\nevaluation_interval: 1m\ntests:\n  - interval: 1m\n    input_series:\n", rules)
	names := maps.Clone(c.well)
	maps.Copy(names, c.now)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		before, after := "_x60", "stale"
		if value, had := c.well[name]; had {
			before = value + "x60"
		}
		if value, has := c.now[name]; has {
			after = value + "x30"
		}
		fmt.Fprintf(&file, "      - {series: '%s', values: '%s %s'}\n", name, before, after)
	}
	file.WriteString("    promql_expr_test:\n")
	for _, alert := range []string{"PerennialAbsent", "PerennialNotReady", "PerennialNoActiveRunner", "PerennialRunnerMissing"} {
		fires := map[bool]int{true: 1}[slices.Contains(firing, alert)]
		fmt.Fprintf(&file, "      - {expr: 'count(ALERTS{alertname=\"%s\",alertstate=\"firing\"}) or vector(0)', eval_time: 75m, exp_samples: [{labels: '{}', value: %d}]}\n", alert, fires)
	}
	c.w.write("alerts_test.yaml", file.String(), 0o600)
	out, err := exec.CommandContext(c.w.t.Context(), "promtool", "test", "rules", filepath.Join(c.w.dir, "alerts_test.yaml")).CombinedOutput()
	if err != nil {
		c.w.t.Fatalf("%v of these alerts do not fire alone: %s\n%s", firing, out, &file)
	}
}

// behindTLS is a provider behind TLS. Its certificate can expire, and it can accept requests and
// never answer.
type behindTLS struct {
	server      *httptest.Server
	authorities []byte
	old, own    tls.Certificate
	expired     atomic.Bool
	silent      atomic.Bool
}

func newBehindTLS(t testing.TB, target string) *behindTLS {
	t.Helper()
	at, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	p := &behindTLS{}
	p.own, p.old = p.certificate(t, time.Hour), p.certificate(t, -time.Hour)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		for p.silent.Load() && r.In.Context().Err() == nil {
			<-r.In.Context().Done()
		}
		r.SetURL(at)
	}}
	p.server = httptest.NewUnstartedServer(proxy)
	p.server.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		if p.expired.Load() {
			return &tls.Config{Certificates: []tls.Certificate{p.old}}, nil
		}
		return &tls.Config{Certificates: []tls.Certificate{p.own}}, nil
	}}
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	p.server.StartTLS()
	t.Cleanup(func() {
		p.server.CloseClientConnections()
		p.server.Close()
	})
	return p
}

// expire changes the certificate for new connections and closes the open ones.
func (p *behindTLS) expire(is bool) {
	p.expired.Store(is)
	p.server.CloseClientConnections()
}

// certificate returns a self-signed certificate for 127.0.0.1 that ends after lasts.
func (p *behindTLS) certificate(t testing.TB, lasts time.Duration) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: lasts.String()}, NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(lasts),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: der}); err != nil {
		t.Fatal(err)
	}
	p.authorities = append(p.authorities, text.Bytes()...)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
