package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"perennial/ledger"
	"perennial/ledger/failpoint"
	"perennial/queue"
	"perennial/queue/intake"
	"perennial/queue/letters"
	"perennial/queue/queuetest"
	"perennial/upstream"
	"perennial/upstream/sandbox"
)

// ledgerTemplate returns a migrated empty ledger, which every simulation copies.
func ledgerTemplate(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "template.db")
	l, err := ledger.Open(t.Context(), ledger.Config{Path: path, Clock: time.Now})
	check(t, err)
	check(t, l.Close())
	text, err := os.ReadFile(path)
	check(t, err)
	return text
}

// simulation is the world of one seed. Everything runs in one goroutine, except the ledger's
// writer, which the simulation waits for.
type simulation struct {
	seed   uint64
	random *rand.Rand
	mail   *rand.Rand    // of headers and answers: the seeds that are kept take their way without them
	time   time.Time     // the provider's
	skew   time.Duration // of the machine's clock

	server   *sandbox.Server
	stream   *queuetest.Stream
	ledger   *ledger.Ledger
	runner   *Runner      // nil: dead
	machines *simMachines // nil: one machine, whose own file is the journal
	late     []*http.Request
	faulty   bool
	moods    []string // of the provider
	config   simConfig
	nested   bool // something happens while a request is in progress
	spoilt   *spoilt
	seen     map[spoilt]bool // members of replies, where they are collected
	deadline time.Time

	guarded            map[string]bool              // commands
	mistaken, mistakes map[string]bool              // keys, and commands, that a person answered for wrongly
	shown              map[string]string            // the expiry that was last shown, by proxy
	shownTo            map[string]map[string]string // shown as it was when the first request under a key left

	price     int64 // of renewals, where it was changed
	unlearned bool  // since then no renewal was booked

	byHand   int                   // writes of people at the provider
	recorded map[string]bool       // those of them that are in the books, by key
	left     map[string]firstLeave // by key
	leftOut  map[string]bool       // "COMMAND PROXY"
	let      map[string]bool       // operations and commands that a person released
	intended map[string]bool       // operations whose intent was recorded before this step
	skewed   bool                  // the clocks have differed

	crashIn  int // effects until the next crash; 0: none
	commands []simCommand
	inboxes  map[string]string   // the command that a message of it named the inbox for
	answers  map[string][]string // by inbox
	dead     int                 // dead letters
	added    int64
	charges  int // of the referee, looked at
	list     []sandbox.Charge
	asOf     int // of list: requests served
	paid     map[string]bool

	counts  simCounts
	trace   []string
	rows    int64 // of the journal, in the trace
	failure string
	dir     string
}

type simCommand struct {
	id   string
	kind queue.Kind
	body []byte
}

// crash is the panic that ends a life.
type crash struct{ point string }

// failed is the panic that ends a simulation.
type failed struct{ why string }

func (s *simulation) failf(format string, args ...any) { panic(failed{fmt.Sprintf(format, args...)}) }

func (s *simulation) must(err error, what string) {
	if s.machines != nil && ledger.Ended(err) {
		panic(crash{what + " is not known to be on the stream"})
	}
	if err != nil {
		s.failf("%s: %v", what, err)
	}
}

func (s *simulation) sayf(format string, args ...any) {
	s.trace = append(s.trace, s.time.Format("02 15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// tail returns the end of the trace; all of it with -sim.trace.
func (s *simulation) tail() string {
	if *simTrace {
		return strings.Join(s.trace, "\n")
	}
	return strings.Join(s.trace[max(0, len(s.trace)-80):], "\n")
}

func (s *simulation) now() time.Time { return s.time.Add(s.skew) }

// chance is true once in n times.
func (s *simulation) chance(n int) bool { return s.random.IntN(n) == 0 }

func pick[T any](s *simulation, from ...T) T { return from[s.random.IntN(len(from))] }

// simulate runs one seed to its end.
func simulate(ctx context.Context, template []byte, dir string, seed uint64) *simulation {
	return simulateOn(ctx, template, dir, seed, 0)
}

// simulateOn is simulate on several machines. With 0, it uses one machine whose own file is
// the journal.
func simulateOn(ctx context.Context, template []byte, dir string, seed uint64, machines int) (s *simulation) {
	s = newSimulation(seed)
	defer s.recovered()
	defer s.close()
	s.build(ctx, template, dir)
	if machines > 0 {
		s.machinesOf(ctx, template, machines)
	}
	s.configure()
	ctx = failpoint.With(ctx, s.reached)
	s.chaos(ctx)
	s.peace(ctx)
	s.accounts(ctx)
	s.replies(ctx)
	s.sameEverywhere(ctx)
	return s
}

func newSimulation(seed uint64) *simulation {
	s := &simulation{
		seed: seed, random: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), mail: rand.New(rand.NewPCG(seed, 0xd1b54a32d192ed03)), paid: map[string]bool{}, guarded: map[string]bool{},
		mistaken: map[string]bool{}, mistakes: map[string]bool{}, shown: map[string]string{}, shownTo: map[string]map[string]string{},
		recorded: map[string]bool{}, left: map[string]firstLeave{}, let: map[string]bool{}, leftOut: map[string]bool{}, intended: map[string]bool{},
		inboxes: map[string]string{}, answers: map[string][]string{}, counts: simCounts{waits: map[string]int{}},
	}
	s.time = pick(s, simDays...)
	return s
}

// recovered records why a simulation failed.
func (s *simulation) recovered() {
	if x := recover(); x != nil {
		why, ok := x.(failed)
		if !ok {
			panic(x)
		}
		s.failure = why.why
	}
}

func (s *simulation) build(ctx context.Context, template []byte, dir string) {
	fixture := sandbox.DefaultFixture()
	fixture.Accounts[0].Wallet.SandboxCents = pick(s, int64(500_000), 500_000, 3000)
	fixture.Proxies = []sandbox.FixtureProxy{{Count: 14, Prefix: "px_", AccountID: sandbox.DemoAccountID, Environment: "sandbox", OfferCode: "off_us_dallas", ExpiresIn: "240h"}}
	for i := range 14 { // what a listing before the first command showed
		s.shown[fmt.Sprintf("px_%d", i+1)] = s.time.Add(240 * time.Hour).Format(time.RFC3339)
	}
	var err error
	s.server, err = sandbox.New(sandbox.Options{Fixture: fixture, Clock: func() time.Time { return s.time }})
	s.must(err, "sandbox")
	s.mood()
	s.dir, err = os.MkdirTemp(dir, "seed-*")
	s.must(err, "directory")
	path := filepath.Join(s.dir, "main.ledger.db")
	s.must(os.WriteFile(path, template, 0o600), "template")
	s.ledger, err = ledger.Open(ctx, ledger.Config{Path: path, Clock: s.now})
	s.must(err, "ledger")
	s.stream = queuetest.NewStream(s.now)
	s.stream.Acked = func(m intake.Message) { s.acked(ctx, m) }
}

func (s *simulation) close() {
	if s.machines != nil {
		for _, l := range s.machines.ledgers {
			_ = l.Close()
		}
	} else if s.ledger != nil {
		_ = s.ledger.Close()
	}
	if s.server != nil {
		_ = s.server.Close()
	}
	_ = os.RemoveAll(s.dir)
}

// reached crashes the life when its time has come. A crash inside a transaction equals a crash
// before it, as SQLite guarantees.
func (s *simulation) reached(point string) {
	if strings.HasSuffix(point, ".inside") || s.crashIn == 0 {
		return
	}
	if s.crashIn--; s.crashIn == 0 {
		panic(crash{point})
	}
}

// alive runs do as a part of the runner's life, which a crash ends.
func (s *simulation) alive(do func()) {
	defer func() {
		x := recover()
		if x == nil {
			return
		}
		end, ok := x.(crash)
		if !ok {
			panic(x)
		}
		s.counts.crashes++
		s.sayf("CRASH at %s", end.point)
		s.runner = nil
	}()
	do()
}

// begin starts a life, which knows only the ledger.
func (s *simulation) begin(ctx context.Context) {
	s.takeOver(ctx)
	client, err := upstream.New(upstream.Config{
		BaseURL: "http://127.0.0.1:80", AppID: sandbox.DemoSandboxAppID, Secret: sandbox.DemoSandboxSecret, Clock: s.now, Transport: simWire{s},
	})
	s.must(err, "client")
	log := logrus.New()
	log.SetOutput(io.Discard)
	r := NewRunner(Config{
		Account: "main", Ledger: s.ledger, Provider: client, Clock: s.now, Random: s.random.Float64, Log: logrus.NewEntry(log),
		Version: "simulation", Holder: s.holder(), RatePerSecond: s.config.rate, Concurrency: 2,
		DailyLimitCents: s.config.limit, DailyLimitLocation: s.config.zone, CIDRField: s.config.field,
		DeadLetter: func(context.Context, letters.Dead) error { s.dead++; return nil },
		Answer:     func(inbox string, data []byte) { s.answered(inbox, string(data)) },
		AnswerEnd:  func(inbox, id string) { s.answered(inbox, id) },
	})
	err = r.Bind(ctx)
	if wait, ok := errors.AsType[*ThrottledError](err); ok { // as a host does
		s.sayf("a life waits until it may begin")
		s.time = wait.Until.Add(-s.skew)
		err = r.Bind(ctx)
	}
	if err != nil {
		s.sayf("the account cannot be read: %v", errors.Unwrap(err) != nil)
		return
	}
	s.stream.Reopen()
	s.must(r.recover(ctx), "recover")
	s.runner = r
	s.sayf("a life begins")
}

// simWire carries requests to the sandbox's handler, and loses some.
type simWire struct{ *simulation }

var errWire = errors.New("the simulated wire failed")

// RoundTrip carries one request in the caller's goroutine.
func (w simWire) RoundTrip(request *http.Request) (*http.Response, error) {
	s := w.simulation
	trace := httptrace.ContextClientTrace(request.Context())
	trace.GetConn("simulated")
	fate := 100
	if s.faulty {
		fate = s.random.IntN(24)
	}
	if fate == 0 {
		s.counts.faults++
		return nil, errWire // no byte has left
	}
	trace.GotConn(httptrace.GotConnInfo{})
	body := []byte{}
	if request.Body != nil {
		var err error
		body, err = io.ReadAll(request.Body)
		s.must(err, "read a request")
	}
	request = request.Clone(context.Background())
	request.RequestURI, request.RemoteAddr = request.URL.RequestURI(), "127.0.0.1:1"
	request.Body = io.NopCloser(bytes.NewReader(body))
	first := s.leaves(request, body)
	if request.Method == http.MethodPost && s.chance(2) {
		s.meanwhile()
	}
	switch {
	case fate == 1:
		s.counts.faults++
		s.sayf("%s %s is lost", request.Method, request.URL.Path)
		return nil, errWire
	case (fate == 2 || s.machines != nil && 4 <= fate && fate < 8) && request.Method == http.MethodPost:
		s.counts.faults++
		s.sayf("%s %s is held up", request.Method, request.URL.Path)
		s.late = append(s.late, request)
		s.standStill(request)
		return nil, errWire
	}
	if other := s.answeredOtherwise(request, string(body)); other != nil {
		return other, nil
	}
	response, err := s.serve(request)
	if err == nil && (s.spoilt != nil || s.seen != nil) {
		s.spoil(request, string(body), response)
	}
	if first {
		s.underLimit(request.Header.Get("Idempotency-Key"))
	}
	s.reached("wire.executed")
	if request.Method == http.MethodPost {
		s.meanwhile()
	}
	if fate == 3 {
		s.counts.faults++
		s.sayf("%s %s loses its reply", request.Method, request.URL.Path)
		return nil, errWire
	}
	return response, err
}

// serve makes the handler reply.
func (s *simulation) serve(request *http.Request) (response *http.Response, err error) {
	defer func() {
		if x := recover(); x != nil {
			if x != http.ErrAbortHandler { //nolint:errorlint // a panic's value
				panic(x)
			}
			err = errWire
		}
	}()
	s.counts.served++
	if request.Method == http.MethodPost {
		s.counts.posts++
	}
	recorder := httptest.NewRecorder()
	s.server.Handler().ServeHTTP(recorder, request)
	response = recorder.Result()
	if n := response.ContentLength; n >= 0 && n != int64(recorder.Body.Len()) {
		response.Body = io.NopCloser(io.MultiReader(bytes.NewReader(recorder.Body.Bytes()), iotestErr{}))
	}
	s.sayf("%s %s: %d", request.Method, route(request.URL.Path), response.StatusCode)
	if request.Method == http.MethodGet && strings.HasPrefix(request.URL.Path, "/api/v1/proxies") {
		for _, found := range shownExpiry.FindAllStringSubmatch(recorder.Body.String(), -1) {
			s.shown[found[1]] = found[2]
		}
	}
	return response, nil
}

// shownExpiry matches a proxy and its expiry in a reply.
var shownExpiry = regexp.MustCompile(`"proxy_id":"(px_\d+)"[^{}]*"expires_at":"([^"]+)"`)

// leaves records the state, and the expiries shown so far, when the first request under a key
// is sent. It reports whether this request is the first.
func (s *simulation) leaves(request *http.Request, body []byte) (first bool) {
	key := request.Header.Get("Idempotency-Key")
	if _, again := s.left[key]; key == "" || again {
		return false
	}
	var sent struct {
		IDs  []string `json:"proxy_ids"`
		Days int64    `json:"duration_days"`
	}
	s.must(json.Unmarshal(body, &sent), "a body")
	s.left[key] = s.firstLeave(key, len(sent.IDs) > 0, sent.Days)
	s.shownTo[key] = map[string]string{}
	for _, id := range sent.IDs {
		if at := s.shown[id]; at != "" {
			s.shownTo[key][id] = at
		}
	}
	return true
}

// route returns a path without the parts that the sandbox makes up.
func route(path string) string {
	head, tail, _ := strings.Cut(strings.TrimPrefix(path, "/api/v1/"), "/")
	if tail != "" && tail != "renew" {
		tail = "{}"
	}
	return head + "/" + tail
}

type iotestErr struct{}

func (iotestErr) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// control sends a request to the sandbox's control interface.
func (s *simulation) control(method, path string, body map[string]any) {
	text, err := json.Marshal(body)
	s.must(err, "control")
	request := httptest.NewRequest(method, path, bytes.NewReader(text))
	request.Host, request.RemoteAddr = "localhost", "127.0.0.1:1"
	recorder := httptest.NewRecorder()
	s.server.Control().ServeHTTP(recorder, request)
	if recorder.Code/100 != 2 {
		s.failf("%s %s %s: %d %s", method, path, text, recorder.Code, recorder.Body)
	}
}
