package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"go.uber.org/goleak"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/cmd/perennial/internal/webhook"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/ledger/testrun"
	"perennial/schedules"
	"perennial/schedules/plans"
)

func TestMain(m *testing.M) {
	testrun.Main(m, goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"), goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"))
}

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// asked is a request to a verb.
type asked struct {
	verb     string
	question map[string]any
}

// book is an account with a real ledger. The test sets the runner's answers.
type book struct {
	*ledger.Ledger
	name   string
	mu     sync.Mutex
	asked  []asked
	answer map[string]any // by verb; a verb without an answer is refused
	silent bool           // it does not answer in time

	unlikely string // why the resolution of a review, or a correction, needs a confirmation
	role     string // "": active
	nats     string // what is wrong with NATS
	paused   string // what is paused, and why

	letters   []Letter
	provider  []Credential // the provider's answer; nil: no answer
	revealed  int          // how often credentials were read
	schedules []plans.Schedule
}

// bookAccount implements the account that the pages use.
type bookAccount struct{ of *book }

func (b bookAccount) AccountName() string           { return b.of.name }
func (b bookAccount) Ledger() *ledger.Ledger        { return b.of.Ledger }
func (b bookAccount) Schedules() []plans.Schedule   { return b.of.schedules }
func (bookAccount) ReadList(string) ([]byte, error) { return nil, os.ErrNotExist }
func (b bookAccount) Role() string                  { return cmp.Or(b.of.role, "active") }
func (b bookAccount) Health() []Check {
	return []Check{{Name: "provider", Detail: "it does not answer <b>now</b>", Since: noon}, {Name: "nats", OK: b.of.nats == "", Detail: b.of.nats}, {Name: "paused", OK: b.of.paused == "", Detail: b.of.paused}}
}

func (b bookAccount) Letters(_ context.Context, after uint64) iter.Seq2[Letter, error] {
	return func(yield func(Letter, error) bool) {
		for _, l := range b.of.letters {
			if l.Seq > after && !yield(l, nil) {
				return
			}
		}
	}
}

func (b bookAccount) CountLetters(context.Context) (int64, error) {
	return int64(len(b.of.letters)), nil
}

func (b bookAccount) Letter(_ context.Context, seq uint64) (Letter, error) {
	for _, l := range b.of.letters {
		if l.Seq == seq {
			return l, nil
		}
	}
	return Letter{}, ErrNoLetter
}

// bookWebhooks has one failing webhook. A test succeeds, and a replay can only go back.
type bookWebhooks struct{ of *book }

func (b bookAccount) Webhooks() Webhooks { return bookWebhooks(b) }

func (b bookWebhooks) List(context.Context) ([]webhook.Status, error) {
	if b.of.nats != "" {
		return nil, errors.New(b.of.nats)
	}
	return []webhook.Status{{Name: "crm", URL: "https://crm.example", State: "retrying", Seq: 40, Lag: 2, LastError: markup, NextAttempt: &noon}}, nil
}

func (b bookWebhooks) Test(_ context.Context, name string) (string, error) {
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	b.of.asked = append(b.of.asked, asked{"webhook-test", map[string]any{"id": name}})
	return "200 OK after 12 ms", nil
}

func (b bookWebhooks) Replay(_ context.Context, name string, seq uint64, since time.Time, by, reason string) (string, error) {
	if seq > 41 {
		return "", errors.New("a replay only goes back")
	}
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	b.of.asked = append(b.of.asked, asked{"webhook-replay", map[string]any{"id": name, "seq": seq, "since": since.Format(time.DateOnly), "by": by, "reason": reason}})
	return "", nil
}

// Requeue refuses content that is not JSON.
func (b bookAccount) Requeue(_ context.Context, seq uint64, content []byte, by, reason string) error {
	if !json.Valid(content) {
		return errors.New("the command is no JSON: unexpected end")
	}
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	b.of.asked = append(b.of.asked, asked{verbs.DeadRequeue.Name, map[string]any{"seq": float64(seq), "content": string(content), "by": by, "reason": reason}})
	return nil
}

func (b bookAccount) Reveal(context.Context, string) ([]Credential, error) {
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	b.of.revealed++
	if b.of.provider == nil {
		return nil, errors.New("the provider does not answer")
	}
	return b.of.provider, nil
}

func (b bookAccount) Ask(_ context.Context, verb string, question, answer any) error {
	text, err := json.Marshal(question)
	if err != nil {
		return err
	}
	var q map[string]any
	if err := json.Unmarshal(text, &q); err != nil {
		return err
	}
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	b.of.asked = append(b.of.asked, asked{verb, q})
	if b.of.silent {
		return ErrNoAnswer
	}
	if (verb == verbs.Resolve.Name || verb == verbs.Record.Name) && b.of.unlikely != "" && q["confirm_cents"] == nil {
		return fmt.Errorf("%w: %s", ErrUnconfirmed, b.of.unlikely)
	}
	said, ok := b.of.answer[verb]
	if !ok {
		return errors.New("the runner says no to " + verb)
	}
	if text, err = json.Marshal(said); err != nil {
		return err
	}
	return json.Unmarshal(text, answer)
}

type rig struct {
	t       testing.TB
	pages   *Server
	server  *httptest.Server
	main    *book
	mu      sync.Mutex
	now     time.Time
	tokens  string // the tokens file
	client  *http.Client
	log     *strings.Builder
	logLock sync.Mutex
}

// keep renews every proxy except one.
var keep = plans.Schedule{Name: "keep", Account: "main", Cron: "@hourly", RenewBefore: 72 * time.Hour, DurationDays: 30, Match: plans.Match{ExceptProxyIDs: []string{"px_2"}}}

const markup = `<script>alert("x")</script>`

func newRig(t testing.TB) *rig {
	t.Helper()
	h := &rig{t: t, now: noon, tokens: filepath.Join(t.TempDir(), "web.tokens"), log: &strings.Builder{}}
	h.main = h.book("main")
	key, err := Key(filepath.Join(t.TempDir(), "web.key"), true)
	check(t, err)
	log := logrus.New()
	log.SetOutput(lockedWriter{h})
	h.pages = New(Config{
		Accounts: []Account{bookAccount{h.main}, bookAccount{h.book("other")}}, Key: key, Clock: h.clock, Log: logrus.NewEntry(log), Version: "0.1.0",
		Tokens: func() ([]Token, error) { return ReadTokens(h.tokens) },
		Runners: func(context.Context) ([]Runner, error) {
			return []Runner{{Name: "host-a", Version: "0.1.0", StartedAt: noon, SaidAt: noon, This: true, Accounts: []RunnerAccount{{Account: "main", Role: "active", Head: 42, Lease: true}, {Account: "other", Role: "standby", Lag: 3}}},
				{Name: "host-b", Version: markup, Accounts: []RunnerAccount{{Account: "other", Role: "active"}}}}, nil
		},
		ServesHost: func(host string) bool { return strings.HasPrefix(host, "127.0.0.1") },
	})
	h.server = httptest.NewServer(h.pages)
	t.Cleanup(h.pages.Close)
	t.Cleanup(h.server.Close)
	h.client = h.browser()
	return h
}

type lockedWriter struct{ h *rig }

func (w lockedWriter) Write(p []byte) (int, error) {
	w.h.logLock.Lock()
	defer w.h.logLock.Unlock()
	return w.h.log.Write(p)
}

func (h *rig) clock() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *rig) wait(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

// browser returns a client with its own cookies that follows no redirect.
func (h *rig) browser() *http.Client {
	jar, err := cookiejar.New(nil)
	check(h.t, err)
	return &http.Client{Jar: jar, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// book returns an account whose ledger has a delivered order, a renewal in review, a renewal on
// hold, and texts that look like markup.
func (h *rig) book(name string) *book {
	l, err := ledger.Open(h.t.Context(), ledger.Config{Path: filepath.Join(h.t.TempDir(), name+".ledger.db"), Clock: h.clock})
	check(h.t, err)
	h.t.Cleanup(func() { _ = l.Close() })
	letter := Letter{Seq: 7, Reason: markup, Subject: "perennial.commands." + name + ".proxy.renew", Text: markup, Bytes: len(markup), Published: noon}
	b := &book{Ledger: l, name: name, letters: []Letter{letter}, schedules: []plans.Schedule{keep}, answer: map[string]any{
		"sweeps": []schedules.Status{{Schedule: "keep", Account: name, Cron: "@hourly", Timezone: "UTC", State: "held", Plan: "9f86d081", Why: markup, LastSlot: &noon}},
		"plan":   plans.Plan{Schedule: "keep", Hash: "9f86d081", Due: 1, Currency: "USD", EstimateCents: fact.Known(300), Included: []plans.Included{{ProxyID: "px_1", EstimateCents: fact.Known(300), Reason: markup}}},
	}}
	ref := func(command, operation string) fact.Ref {
		return fact.Ref{CommandID: command, OperationID: operation, Labels: map[string]string{"team": markup}}
	}
	accept := func(kind fact.Kind, command, operation string, ids ...string) fact.Fact {
		return fact.CommandAccepted{Ref: fact.Ref{CommandID: command, Labels: map[string]string{"team": markup}}, Kind: kind, Content: json.RawMessage(`{}`), DurationDays: 30,
			Operations: []fact.Planned{{OperationID: operation, Chunk: "1", Generation: 1, Key: "key-" + operation, ProxyIDs: ids}}}
	}
	check(h.t, l.Write(h.t.Context(), func(tx *ledger.Tx) error {
		for _, f := range []fact.Fact{
			fact.LedgerOpened{AccountID: "acc", Environment: "sandbox", BaseURL: "http://127.0.0.1", Currency: "USD", OpeningCents: 500_000, Epoch: "e1"},
			accept(fact.KindRenewal, "r1", "r1/0001", "px_1"),
			fact.OperationSending{Ref: ref("r1", "r1/0001"), Attempt: 1, Key: "key-r1/0001", Body: "{}", SentAt: noon},
			fact.OperationReview{Ref: ref("r1", "r1/0001"), Attempt: 1, Ambiguous: true, Code: "operation_failed", Reason: markup},
			accept(fact.KindRenewal, markup, markup+"/0001", "px_2"),
			fact.CommandHeld{Ref: ref(markup, markup+"/0001"), Reason: markup},
		} {
			if err := tx.Append(f); err != nil {
				return err
			}
		}
		expires := noon.Add(3 * time.Hour)
		if err := tx.KeepListing(tables.Listing{Pass: 1, Finished: noon}); err != nil {
			return err
		}
		return tx.Observe(1, tables.Proxy{ProxyID: "px_1", Status: markup, CountryCode: "US", Region: markup, ExpiresAt: &expires, SeenAt: noon})
	}))
	return b
}

// signIn signs a browser in through the button of a one-time link.
func (h *rig) signIn(client *http.Client, p Person) {
	h.t.Helper()
	code, _ := h.post(client, "/login", "", map[string]string{"code": Link(h.pages.Key, p, h.clock())})
	if code != http.StatusSeeOther {
		h.t.Fatalf("the link is answered with %d", code)
	}
}

func (h *rig) get(path string) (code int, body string, header http.Header) {
	h.t.Helper()
	return h.getAs(h.client, path)
}

func (h *rig) getAs(client *http.Client, path string) (code int, body string, header http.Header) {
	h.t.Helper()
	request, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, h.server.URL+path, nil)
	check(h.t, err)
	return h.do(client, request)
}

func (h *rig) do(client *http.Client, request *http.Request) (code int, body string, header http.Header) {
	h.t.Helper()
	response, err := client.Do(request)
	check(h.t, err)
	text, err := io.ReadAll(response.Body)
	check(h.t, errors.Join(err, response.Body.Close()))
	return response.StatusCode, string(text), response.Header
}

// post sends a form with an Origin header, "" for none.
func (h *rig) post(client *http.Client, path, origin string, fields map[string]string) (code int, body string) {
	h.t.Helper()
	form := url.Values{}
	for k, v := range fields {
		form.Set(k, v)
	}
	request, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, h.server.URL+path, strings.NewReader(form.Encode()))
	check(h.t, err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if origin != "" {
		request.Header.Set("Origin", origin)
	}
	code, body, _ = h.do(client, request)
	return code, body
}

// formOf returns the form token of a page.
func formOf(t *testing.T, page string) string {
	t.Helper()
	m := regexp.MustCompile(`name="form" value="([^"]+)"`).FindStringSubmatch(page)
	if m == nil {
		t.Fatalf("no form:\n%s", page)
	}
	return m[1]
}

// requests returns the requests of the pages, without those for the number in the navigation.
func (b *book) requests() []asked {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.asked), func(x asked) bool { return slices.Contains(ofTheNavigation, x.verb) })
}

// lastOf returns the last request for a verb. Pages may request other verbs after an answer.
func (b *book) lastOf(t *testing.T, verb string) map[string]any {
	t.Helper()
	for _, x := range slices.Backward(b.requests()) {
		if x.verb == verb {
			return x.question
		}
	}
	t.Fatalf("%s was not requested", verb)
	return nil
}

// ofTheNavigation is the verbs that every page calls.
var ofTheNavigation = []string{verbs.AtAGlance.Name, verbs.Show.Name, verbs.Sweeps.Name}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	check(t, err)
	return info.Mode().Perm()
}
