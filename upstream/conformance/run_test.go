package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"perennial/upstream/conformance"
)

// Lists of known differences contain the ids of checks.
func TestChecksAreNamedAndPlaced(t *testing.T) {
	ids, bySection := map[string]bool{}, map[string]int{}
	for _, c := range conformance.List() {
		if ids[c.ID] || c.ID == "" || strings.ContainsAny(c.ID, " \n") || c.Sentence == "" {
			t.Errorf("check %q, %q", c.ID, c.Sentence)
		}
		ids[c.ID] = true
		bySection[c.Section]++
	}
	for _, section := range conformance.Sections() {
		if bySection[section] == 0 {
			t.Errorf("no check in %q", section)
		}
		t.Logf("%4d  %s", bySection[section], section)
		delete(bySection, section)
	}
	if len(bySection) != 0 || len(ids) < 250 || !ids["auth.stale_timestamp.6m.account"] {
		t.Errorf("%d checks; sections that are not listed: %v", len(ids), bySection)
	}
}

// The suite could not find a bug that it shares with the client or the sandbox.
func TestTheSuiteSharesNoCode(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, imported := range f.Imports {
			if path := strings.Trim(imported.Path.Value, `"`); strings.Contains(path, "perennial") || strings.Contains(path, ".") {
				t.Errorf("%s imports %s", name, path)
			}
		}
	}
}

type written struct{ method, path, body string }

// recorder records the requests, and when the plan was announced.
type recorder struct {
	http.RoundTripper
	mu        sync.Mutex
	announced *bool
	early     int
	writes    []written
	requests  int
	stop      func(n int)
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	r.note(req)
	return r.RoundTripper.RoundTrip(req)
}

func (r *recorder) note(req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests++
	if req.Method != http.MethodGet {
		var body []byte
		if req.Body != nil {
			body, _ = io.ReadAll(req.Body)
			req.Body = io.NopCloser(bytes.NewReader(body))
		}
		r.writes = append(r.writes, written{req.Method, req.URL.Path, string(body)})
		if !*r.announced {
			r.early++
		}
	}
	if r.stop != nil {
		r.stop(r.requests)
	}
}

func recorded(cfg *conformance.Config) (*recorder, *conformance.Plan) {
	announced, plan := false, conformance.Plan{}
	r := &recorder{RoundTripper: &http.Transport{DisableKeepAlives: true}, announced: &announced}
	cfg.Transport = r
	cfg.Announce = func(p conformance.Plan) { announced, plan = true, p }
	return r, &plan
}

// In production nothing is bought unless the configuration has a spending limit.
func TestProductionIsReadOnlyByDefault(t *testing.T) {
	cfg := newWorld(t).config(true)
	cfg.ControlURL = ""
	r, plan := recorded(&cfg)
	report := run(t, cfg)
	if plan.MaxCents != 0 || report.SpentCents != 0 || plan.Environment != "production" || r.early != 0 {
		t.Errorf("%+v, %d spent, %d before the announcement", plan, report.SpentCents, r.early)
	}
	for _, w := range r.writes {
		if w.method != http.MethodPost || w.path != "/api/v1/orders" && w.path != "/api/v1/proxies/renew" || strings.Contains(w.body, "off_") || strings.Contains(w.body, "px_") {
			t.Errorf("%+v", w)
		}
	}
	for _, result := range report.Results {
		if result.Verdict == conformance.Differs {
			t.Errorf("%s: %s", result.ID, result.Seen)
		}
	}
	if report.Count(conformance.OK) < 250 {
		t.Errorf("only %d checks without spending", report.Count(conformance.OK))
	}
}

// The spending limit holds, and is announced before any request that may charge.
func TestTheSumHolds(t *testing.T) {
	t.Parallel()
	for _, most := range []int64{0, 1, 500, 2000} {
		cfg := newWorld(t).config(false)
		cfg.ControlURL, cfg.MaxCents = "", &most
		r, plan := recorded(&cfg)
		report := run(t, cfg)
		if report.SpentCents > most || plan.MaxCents != most || r.early != 0 {
			t.Errorf("at most %d: spent %d, announced %d, %d requests before that", most, report.SpentCents, plan.MaxCents, r.early)
		}
		for _, result := range report.Results {
			if result.Verdict == conformance.Differs {
				t.Errorf("at most %d: %s: %s", most, result.ID, result.Seen)
			}
		}
	}
}

// Without any options the suite still checks most of the document.
func TestThePortablePartNeedsNoControl(t *testing.T) {
	cfg := newWorld(t).config(false)
	cfg.ControlURL, cfg.OtherBaseURL, cfg.CIDRField, cfg.Keys = "", "", "", nil
	report := run(t, cfg)
	if n := report.Count(conformance.OK) + report.Count(conformance.NotShown); n < 250 {
		t.Errorf("only %d checks", n)
	}
	for _, r := range report.Results {
		if r.Verdict == conformance.Differs {
			t.Errorf("%s: %s", r.ID, r.Seen)
		}
	}
}

func TestOneSectionAlone(t *testing.T) {
	cfg := newWorld(t).config(false)
	cfg.Section = "canonical string"
	report := run(t, cfg)
	if len(report.Results) < 40 || report.MaxCents != 0 {
		t.Errorf("%d checks, at most %d cents", len(report.Results), report.MaxCents)
	}
	cfg.Section = "wallet.balance"
	if report = run(t, cfg); len(report.Results) != 3 {
		t.Errorf("%d checks", len(report.Results))
	}
	cfg.Section = "wallet.balance, Account"
	if report = run(t, cfg); len(report.Results) != 10 {
		t.Errorf("%d checks", len(report.Results))
	}
	cfg.Section = "nothing"
	if _, err := conformance.Run(context.Background(), cfg); !errors.Is(err, conformance.ErrConfig) {
		t.Errorf("%v", err)
	}
}

// An interrupted run reports its results so far, and restores key, clock and faults.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	for _, after := range []int{1, 100, 650} {
		w := newWorld(t)
		cfg := w.config(false)
		ctx, cancel := context.WithCancel(context.Background())
		r, _ := recorded(&cfg)
		r.stop = func(n int) {
			if n == after {
				cancel()
			}
		}
		report, err := conformance.Run(ctx, cfg)
		cancel()
		if !errors.Is(err, context.Canceled) || report.Count(conformance.Differs) > 0 {
			t.Errorf("after %d: %v, %d differ", after, err, report.Count(conformance.Differs))
		}
		cfg = w.config(false)
		cfg.Section = "Account"
		if report = run(t, cfg); report.Count(conformance.OK) < 5 {
			t.Errorf("after %d: the sandbox is not as it was: %+v", after, report.Results)
		}
	}
}

func TestWhatPreventsARun(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		change func(*conformance.Config)
		want   error
	}{
		"no server":         {func(c *conformance.Config) { c.BaseURL = "http://127.0.0.1:1" }, conformance.ErrUnreachable},
		"wrong secret":      {func(c *conformance.Config) { c.Secret = "x" }, conformance.ErrKey},
		"no secret":         {func(c *conformance.Config) { c.Secret = "" }, conformance.ErrConfig},
		"plain http":        {func(c *conformance.Config) { c.BaseURL = "http://api.example.com" }, conformance.ErrConfig},
		"no address":        {func(c *conformance.Config) { c.BaseURL = "" }, conformance.ErrConfig},
		"production key":    {func(c *conformance.Config) { c.AppID = "live_app_main" }, conformance.ErrConfig},
		"sandbox key":       {func(c *conformance.Config) { c.Production = true }, conformance.ErrConfig},
		"negative sum":      {func(c *conformance.Config) { n := int64(-1); c.MaxCents = &n }, conformance.ErrConfig},
		"key without role":  {func(c *conformance.Config) { c.Keys[0].Role = "friend" }, conformance.ErrConfig},
		"key of production": {func(c *conformance.Config) { c.Keys[0].AppID = "live_app_second" }, conformance.ErrConfig},
	} {
		cfg := w.config(false)
		c.change(&cfg)
		if _, err := conformance.Run(context.Background(), cfg); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// No output contains a credential or the API Secret.
func TestNothingSecretIsReported(t *testing.T) {
	report := run(t, newWorld(t).config(false))
	for _, r := range report.Results {
		if strings.Contains(r.Seen, secret) || strings.Contains(r.Seen, "pass-") || strings.Contains(r.Seen, "socks5://") {
			t.Errorf("%s: %s", r.ID, r.Seen)
		}
	}
}

func TestJUnit(t *testing.T) {
	report := conformance.Report{Results: []conformance.Result{
		{ID: "a.ok", Section: "Wallet", Sentence: "a", Verdict: conformance.OK}, {ID: "a.differs", Section: "Wallet", Sentence: "<b>", Verdict: conformance.Differs, Seen: "\"x\" & y"},
		{ID: "b.open", Section: "Errors", Sentence: "c", Verdict: conformance.NotShown, Seen: "HTTP 404"}, {ID: "b.not_run", Section: "Errors", Sentence: "d", Verdict: conformance.NotRun, Seen: "why"},
	}}
	var out bytes.Buffer
	if err := report.WriteJUnit(&out); err != nil {
		t.Fatal(err)
	}
	var back struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Skipped  int `xml:"skipped,attr"`
		Suites   []struct {
			Name string `xml:"name,attr"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(out.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if back.Tests != 4 || back.Failures != 1 || back.Skipped != 1 || len(back.Suites) != 2 || !slices.ContainsFunc(strings.Split(out.String(), "\n"), func(l string) bool {
		return strings.Contains(l, "<failure message=\"&#34;x&#34; &amp; y\">&lt;b&gt;</failure>")
	}) {
		t.Errorf("%+v\n%s", back, out.String())
	}
}

func TestAMixedRenewalNamesAGoodAndAnUnknownProxy(t *testing.T) {
	t.Parallel()
	cfg := newWorld(t).config(false)
	cfg.ControlURL = ""
	r, _ := recorded(&cfg)
	run(t, cfg)
	for _, w := range r.writes {
		var body struct {
			IDs []string `json:"proxy_ids"`
		}
		if w.path == "/api/v1/proxies/renew" && json.Unmarshal([]byte(w.body), &body) == nil && len(body.IDs) == 2 && strings.HasPrefix(body.IDs[0], "px_") && !strings.HasPrefix(body.IDs[1], "px_") {
			return
		}
	}
	t.Error("no renewal names a good and an unknown proxy")
}
