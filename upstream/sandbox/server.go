// The server: options, start and stop.

package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
	"golang.org/x/time/rate"

	"perennial/ledger/connlimit"
)

// Options configure a sandbox.
type Options struct {
	Listen           string           // address of the sandbox environment; default: 127.0.0.1:0
	ListenProduction string           // address of the production environment; default: 127.0.0.1:0
	Control          string           // address of the control interface, loopback only; default: 127.0.0.1:0
	DB               string           // an SQLite file; "" or ":memory:" keeps the state in memory
	Fixture          Fixture          // the initial state
	Charges          string           // the referee's file; "" keeps the lines in memory
	ChargesNoSync    bool             // do not sync the referee's file; for benchmarks
	Clock            func() time.Time // default: the system's clock; POST /clock adds an offset
	Log              *logrus.Logger   // default: no log

	MaxConnections     int     // limit per environment; a further connection replaces the connection with the longest idle time; default: 4096
	RequestsPerSecond  float64 // rate limit of each key (extension); default: no limit; POST /rate changes it
	RefuseScriptAgents bool    // refuse the default User-Agents of scripts (extension); POST /policy changes it

	Moods    []string // names of active quirks, or "all" (extension); default: no quirks; POST /moods changes them
	MoodSeed uint64   // seed of the random numbers for the quirks

	AsyncDelay       time.Duration // time to completion for success, rejected and production orders; partial orders may take longer; default: 1 s
	DelayedDelay     time.Duration // time to completion for delayed orders; default: 2 s
	PollAfterSeconds int64         // poll_after_seconds of unfinished orders; default: 1
}

func (o *Options) fillDefaults() {
	for _, address := range []*string{&o.Listen, &o.ListenProduction, &o.Control} {
		*address = cmp.Or(*address, "127.0.0.1:0")
	}
	if o.DB == ":memory:" {
		o.DB = ""
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Log == nil {
		o.Log = logrus.New()
		o.Log.SetOutput(io.Discard)
	}
	o.MaxConnections = cmp.Or(max(o.MaxConnections, 0), defaultMaxConnections)
	o.AsyncDelay = cmp.Or(max(o.AsyncDelay, 0), time.Second)
	o.DelayedDelay = cmp.Or(max(o.DelayedDelay, 0), 2*time.Second)
	o.PollAfterSeconds = cmp.Or(max(o.PollAfterSeconds, 0), 1)
}

// world is the simulated provider: state, clock, files and settings. All parts of the server
// share it.
type world struct {
	opts    Options
	log     *logrus.Logger
	clock   func() time.Time
	offset  atomic.Int64 // seconds that POST /clock adds
	st      *state
	db      *store // nil if the state is in memory
	referee *referee
	durable *group[*change]
	faults  settings[*fault]
	latency settings[*latencySetting]
	rates   rateLimits
	moods   moodSet
	counts  counters
	traces  atomic.Uint64
	closing chan struct{}

	refuseScripts atomic.Bool // set by POST /policy
	tracePrefix   string
}

// Server is a running sandbox.
type Server struct {
	*world
	*front
	*controls

	listeners []net.Listener // in the order sandbox, production, control
	servers   []*http.Server
	running   sync.WaitGroup
	closeOnce sync.Once
	closeErr  error
}

// Start starts a sandbox that serves until Close, Shutdown or the end of ctx. It returns an
// error if an option or the fixture is invalid, or if an address, the database or the referee
// is unusable.
func Start(ctx context.Context, o Options) (*Server, error) {
	s, err := New(o)
	if err != nil {
		return nil, err
	}
	if err := s.listen(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	context.AfterFunc(ctx, func() { _ = s.Close() })
	return s, nil
}

// New returns a sandbox without listeners. The caller serves its Handler, for example in a
// simulation without sockets, and must call Close.
func New(o Options) (*Server, error) {
	o.fillDefaults()
	if err := o.Fixture.Validate(); err != nil {
		return nil, fmt.Errorf("fixture: %w", err)
	}
	if err := loopbackOnly(o.Control); err != nil {
		return nil, err
	}
	w := &world{opts: o, log: o.Log, clock: o.Clock, closing: make(chan struct{}), tracePrefix: "trc_" + strings.ToLower(rand.Text()[:8]) + "_"}
	quirks, reads := &quirks{w}, &reads{w}
	writes := &writes{world: w, quirks: quirks, reads: reads}
	s := &Server{world: w, front: &front{world: w, quirks: quirks, reads: reads, writes: writes}, controls: &controls{world: w, quirks: quirks, writes: writes}}
	s.durable = newGroup(s.flush)
	s.rates.keys, s.counts.counts = map[string]*rate.Limiter{}, map[string]map[string]int64{}
	s.refuseScripts.Store(o.RefuseScriptAgents)
	if o.RequestsPerSecond != 0 {
		if err := s.setRate(&rateSetting{RequestsPerSecond: o.RequestsPerSecond}); err != nil {
			return nil, err
		}
	}
	if err := s.setMoods(&moodSetting{o.Moods, o.MoodSeed}); err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.closeFiles())
	}
	return s, nil
}

// Handler serves the sandbox environment. To reset a connection, a fault panics with
// http.ErrAbortHandler if the ResponseWriter has no connection.
func (s *Server) Handler() http.Handler { return s.handler(envSandbox) }

// Control serves the control interface.
func (s *Server) Control() http.Handler { return s.control() }

func loopbackOnly(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("control address: %w", err)
	}
	if host != "localhost" && !isLoopback(host) {
		return fmt.Errorf("control address %s: only loopback may control a sandbox", address)
	}
	return nil
}

func (s *Server) open() error {
	var err error
	if s.referee, err = openReferee(s.opts.Charges, s.opts.ChargesNoSync); err != nil {
		return err
	}
	if s.opts.DB != "" {
		if s.db, err = openStore(s.opts.DB); err != nil {
			return err
		}
	}
	return (&saved{world: s.world, quirks: s.front.quirks}).load(s.opts.Fixture)
}

func (s *Server) listen() error {
	handlers := []struct {
		address string
		handler http.Handler
	}{{s.opts.Listen, s.handler(envSandbox)}, {s.opts.ListenProduction, s.handler(envProduction)}, {s.opts.Control, s.control()}}
	for _, h := range handlers {
		l, err := net.Listen("tcp", h.address)
		if err != nil {
			return fmt.Errorf("sandbox: %w", err)
		}
		s.listeners = append(s.listeners, l)
		if len(s.listeners) == 3 {
			if err := loopbackOnly(l.Addr().String()); err != nil { // "localhost" may resolve to another address
				return err
			}
		}
		limiter := connlimit.New(s.opts.MaxConnections)
		srv := &http.Server{Handler: h.handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
			IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes, ConnContext: limiter.Connect, ConnState: limiter.Change,
			DisableGeneralOptionsHandler: true, ErrorLog: log.New(panicLog{s.log}, "", 0)}
		s.servers = append(s.servers, srv)
		s.running.Go(func() {
			if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				s.log.WithError(err).Error("sandbox stopped serving")
			}
		})
	}
	return nil
}

// defaultMaxConnections is more than clients need and less than the usual limit of file
// descriptors.
const defaultMaxConnections = 4096

// Timeouts for slow clients. A hanging reply has no write timeout (see front.hang).
const (
	headerTimeout  = 10 * time.Second
	readTimeout    = 30 * time.Second
	writeTimeout   = 120 * time.Second
	idleTimeout    = 120 * time.Second
	maxHeaderBytes = 64 << 10
)

// panicLog logs panics only. It discards the other messages of net/http, because broken
// connections are often intended.
type panicLog struct{ log *logrus.Logger }

// Write receives one message from net/http.
func (p panicLog) Write(text []byte) (int, error) {
	if bytes.Contains(text, []byte("panic")) {
		p.log.Error(string(text))
	}
	return len(text), nil
}

// now returns the sandbox's time in UTC.
func (s *world) now() time.Time {
	return s.clock().Add(time.Duration(s.offset.Load()) * time.Second).UTC()
}

func (s *Server) url(i int) string { return "http://" + s.listeners[i].Addr().String() }

// SandboxURL returns the base URL of the sandbox environment.
func (s *Server) SandboxURL() string { return s.url(0) }

// ProductionURL returns the base URL of the production environment.
func (s *Server) ProductionURL() string { return s.url(1) }

// ControlURL returns the base URL of the control interface.
func (s *Server) ControlURL() string { return s.url(2) }

// Charges returns all lines of the referee.
func (s *world) Charges() ([]Charge, error) {
	if err := s.durable.wait(s.durable.last()); err != nil && !errors.Is(err, errClosed) {
		return nil, err
	}
	return s.referee.all()
}

// Close stops immediately and aborts running requests. The changes of every request with a
// reply are durable. Later calls return the same error.
func (s *Server) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return s.Shutdown(ctx)
}

// Shutdown waits until running requests have finished or ctx has ended, and then stops.
func (s *Server) Shutdown(ctx context.Context) error {
	s.closeOnce.Do(func() {
		close(s.closing)
		for _, srv := range s.servers {
			if srv.Shutdown(ctx) != nil {
				_ = srv.Close()
			}
		}
		s.running.Wait()
		s.closeErr = errors.Join(s.durable.close(), s.closeFiles())
	})
	return s.closeErr
}

func (s *Server) closeFiles() error {
	var errs []error
	if s.db != nil {
		errs = append(errs, s.db.db.Close())
	}
	if s.referee != nil {
		errs = append(errs, s.referee.close())
	}
	return errors.Join(errs...)
}
