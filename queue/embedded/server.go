package embedded

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/sirupsen/logrus"

	"perennial/ledger/files"
	"perennial/queue"
	"perennial/queue/roles"
	"perennial/queue/service"
)

const (
	maxPayloadBytes = 2 << 20
	// MaxBufferedMessages limits the messages that a stream of the embedded server has accepted
	// but not yet stored. The stream refuses further messages. Without the limit, a client that
	// publishes without waiting would make other clients wait until all its messages are
	// synced. A batch, and the concurrent messages of the outbox, are below the limit.
	MaxBufferedMessages = 1536
	// anyConnections limits the connections to an embedded server without users. roomFor applies
	// if there are users: it is the number of connections for the runner and Perennial's
	// commands, in addition to the users' limits.
	anyConnections     = 1024
	roomFor            = 64
	serverStartTimeout = 2 * time.Minute
)

// Config configures the embedded NATS server.
type Config struct {
	Listen   string         // loopback host:port; port 0 selects a free port; default 127.0.0.1:4222
	StoreDir string         // directory of JetStream's files; required
	Users    []roles.User   // default: none, so that every process of this machine may connect
	Verbs    []service.Verb // the verbs that the roles refer to
	Closed   bool           // only this process may connect, and Users is ignored
	Log      *logrus.Logger // default: logrus's standard logger
}

// Server is a NATS server with JetStream inside this process. It syncs every write before
// it acknowledges it, except for events, whose first copy is the ledger.
type Server struct {
	options  *server.Options
	log      *serverLog
	user     string
	password string
	accounts string            // configuration of the accounts and users; "" if there are none
	secrets  map[string]string // password by user

	mu     sync.RWMutex
	server *server.Server
	ended  bool
}

// Start starts the embedded server and returns when clients can connect. The server listens
// on loopback only and handles no signals. Call [Server.Shutdown] to stop it.
func Start(config Config) (*Server, error) {
	host, port, err := loopback(config.Listen)
	if err != nil {
		return nil, err
	}
	if config.StoreDir == "" {
		return nil, errors.New("embedded nats: no store directory given")
	}
	if err := files.CloseDirectory(config.StoreDir); err != nil {
		return nil, fmt.Errorf("embedded nats: store directory: %w", err)
	}
	options := &server.Options{
		ServerName: "perennial", Host: host, Port: port,
		JetStream: true, StoreDir: config.StoreDir, SyncAlways: true,
		JetStreamMaxStore: diskAlone, StreamMaxBufferedMsgs: MaxBufferedMessages,
		MaxPayload: maxPayloadBytes, NoSigs: true, MaxConn: anyConnections,
	}
	if len(config.Users) > 0 { // each user has its own limit
		options.MaxConn = len(config.Users)*roles.MaxConnections + roomFor
	}
	embedded := &Server{options: options, log: newServerLog(config.Log)}
	if err := embedded.separate(config); err != nil {
		return nil, err
	}
	if err := embedded.start(); err != nil {
		return nil, err
	}
	return embedded, nil
}

// diskAlone is a storage limit, in bytes, that exceeds any disk. Without an explicit limit, the
// server's limit is the space that is free when it starts. On a nearly full disk it would then
// store nothing, even after space is freed.
const diskAlone = 1 << 50

func (e *Server) start() error {
	options, err := e.fresh()
	if err != nil {
		return err
	}
	made, err := server.NewServer(options)
	if err != nil {
		return fmt.Errorf("embedded nats: %w", err)
	}
	select {
	case <-e.log.fatal: // of an earlier start
	default:
	}
	made.SetLoggerV2(e.log, false, false, false)
	e.log.watch(made)
	made.Start()
	if err := awaitReady(made, e.log); err != nil {
		made.Shutdown()
		made.WaitForShutdown()
		if strings.Contains(err.Error(), "address already in use") {
			err = fmt.Errorf("%w\nanother program listens there, perhaps another `perennial run`: say another address with --nats-listen or nats.listen, such as 127.0.0.1:0", err)
		}
		return fmt.Errorf("embedded nats on %s: %w", net.JoinHostPort(e.options.Host, strconv.Itoa(max(e.options.Port, 0))), err)
	}
	e.server = made
	return nil
}

func (e *Server) now() *server.Server {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.server
}

// URL returns the address for clients, such as nats://127.0.0.1:4222.
func (e *Server) URL() string { return e.now().ClientURL() }

// InProcessConn implements nats.InProcessConnProvider. Connections of this process reach
// the current server, even after a restart.
func (e *Server) InProcessConn() (net.Conn, error) { return e.now().InProcessConn() }

// Listeners returns the users whose clients are subscribed to an inbox. "" stands for the
// runner, or for all clients of a server without users. A user may also subscribe to other
// users' inboxes.
func (e *Server) Listeners(inbox string) (users []string) {
	accounts := map[string]string{"": server.DEFAULT_GLOBAL_ACCOUNT}
	for name := range e.secrets {
		accounts[name] = queue.UserAccount(name)
	}
	if e.user != "" {
		delete(accounts, e.user)
		accounts[""] = roles.RunnerAccount
	}
	for name, account := range accounts {
		if of, err := e.now().LookupAccount(account); err == nil && of.Interest(inbox) > 0 {
			users = append(users, name)
		}
	}
	return users
}

// Stored returns an error if the files of a stream are missing on disk. The server then
// keeps running but stores nothing.
func (e *Server) Stored(stream string) error {
	for _, account := range []string{server.DEFAULT_GLOBAL_ACCOUNT, roles.RunnerAccount} {
		_, err := os.Stat(filepath.Join(e.options.StoreDir, server.JetStreamStoreDir, account, "streams", stream, server.JetStreamMetaFile))
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return fmt.Errorf("the files of stream %s are gone from %s, and it stores nothing", stream, e.options.StoreDir)
}

// Failing returns why the server can no longer store messages. It returns nil if it can. If the
// disk was full or returned an error, the server disables one or all streams until a restart.
func (e *Server) Failing() error {
	health := e.now().Healthz(&server.HealthzOptions{})
	if health.StatusCode == 0 && health.Error == "" || health.Status == "ok" {
		return nil
	}
	return fmt.Errorf("the embedded NATS stores nothing: %s", health.Error)
}

// Restart stops the server and starts it again with the same address and files. Clients
// reconnect automatically.
func (e *Server) Restart() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ended {
		return nil
	}
	if at, ok := e.server.Addr().(*net.TCPAddr); ok {
		e.options.Port = at.Port
	}
	e.server.Shutdown()
	e.server.WaitForShutdown()
	return e.start()
}

// Shutdown stops the server and returns when its files are closed.
func (e *Server) Shutdown() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ended = true
	e.server.Shutdown()
	e.server.WaitForShutdown()
}

// ConnectOptions returns options for connecting within the process, without a socket.
func (e *Server) ConnectOptions() []nats.Option {
	options := []nats.Option{nats.InProcessServer(e)}
	if e.user != "" {
		options = append(options, nats.UserInfo(e.user, e.password))
	}
	return options
}

// separate prepares a NATS account for each user, and one for the runner with a random password.
// A closed server has only the runner's account. A server that is not closed and has no users
// has a single account, which all clients share.
func (e *Server) separate(config Config) (err error) {
	users := config.Users
	if config.Closed {
		users = nil
	}
	if len(users) == 0 && !config.Closed {
		return moveStore(config.StoreDir, server.DEFAULT_GLOBAL_ACCOUNT)
	}
	if e.accounts, err = roles.ServerConfig(users, config.Verbs, func(string) string { return `"set at the start"` }); err != nil {
		return fmt.Errorf("embedded nats: %w", err)
	}
	e.user, e.password = roles.RunnerUser, rand.Text()
	e.secrets = map[string]string{e.user: e.password}
	for _, u := range users {
		e.secrets[u.Name] = u.Password
	}
	return moveStore(config.StoreDir, roles.RunnerAccount)
}

// fresh returns a copy of the options. Each start needs a new copy, because a server stores the
// accounts in its options.
func (e *Server) fresh() (*server.Options, error) {
	options := e.options.Clone()
	if e.accounts == "" {
		return options, nil
	}
	if err := options.ProcessConfigString(e.accounts); err != nil {
		return nil, fmt.Errorf("embedded nats: the accounts of its users: %w", err)
	}
	for _, u := range options.Users {
		u.Password = e.secrets[u.Username]
	}
	return options, nil
}

// moveStore moves the streams to the NATS account that the runner uses now. They are in
// another account if users were added to the configuration, or all were removed.
func moveStore(dir, account string) error {
	other := roles.RunnerAccount
	if account == other {
		other = server.DEFAULT_GLOBAL_ACCOUNT
	}
	now, before := filepath.Join(dir, server.JetStreamStoreDir, account), filepath.Join(dir, server.JetStreamStoreDir, other)
	if _, err := os.Stat(now); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(before, now); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("embedded nats: move the streams from account %s to %s: %w", other, account, err)
	}
	return nil
}

func awaitReady(made *server.Server, log *serverLog) error {
	const step = 50 * time.Millisecond
	for range serverStartTimeout / step {
		if made.ReadyForConnections(step) {
			return nil
		}
		select {
		case message := <-log.fatal:
			return errors.New(message)
		default:
		}
	}
	return fmt.Errorf("not ready after %s", serverStartTimeout)
}

// CheckListen returns an error if an address is not valid for the embedded server.
func CheckListen(listen string) error {
	_, _, err := loopback(listen)
	return err
}

// loopback splits a listen address. It returns an error for an address outside this
// machine, because the embedded server has no TLS.
func loopback(listen string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(cmp.Or(listen, "127.0.0.1:4222"))
	if err != nil {
		return "", 0, fmt.Errorf("nats.listen %q: %w", listen, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "", 0, fmt.Errorf("nats.listen %q: the embedded server listens on loopback only (127.0.0.1); for other machines run a NATS server and set nats.url", listen)
	}
	port, err = strconv.Atoi(text)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("nats.listen %q: port must be 0 to 65535", listen)
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	return host, port, nil
}

// serverLog passes the server's log entries to logrus. It keeps the first fatal entry, and
// does not end the process.
type serverLog struct {
	log   *logrus.Entry
	fatal chan string
	busy  atomic.Pointer[server.Server] // nil while a flood is examined
}

func newServerLog(log *logrus.Logger) *serverLog {
	return &serverLog{log: cmp.Or(log, logrus.StandardLogger()).WithField("part", "nats-server"), fatal: make(chan string, 1)}
}

func (l *serverLog) Noticef(format string, v ...any) { l.log.Debugf(format, v...) }

// Warnf logs a warning. It drops the warning about passwords in a file, because the passwords of
// this server are not read from one. After a kill, some warnings are normal; these are logged at
// debug level.
func (l *serverLog) Warnf(format string, v ...any) {
	if strings.HasPrefix(format, "Plaintext passwords detected") {
		return
	}
	text := fmt.Sprintf(format, v...)
	if strings.HasPrefix(text, "Dropping messages due to") {
		l.flooded(text)
		return
	}
	if indexIsOld(text) {
		l.log.Debug(text)
		return
	}
	l.log.Warn(text)
}

// indexIsOld reports whether a warning says that the server's index is older than its data. The
// server then reads the data, which is normal after a kill. A comparison with the ledger finds
// out whether a stream lost messages.
func indexIsOld(text string) bool {
	_, said, ours := strings.Cut(text, "] ")
	return ours && strings.HasPrefix(text, "Filestore [") && (strings.HasSuffix(said, ", will rebuild") ||
		strings.HasPrefix(said, "Recovering stream state from index errored: ") ||
		strings.HasPrefix(said, "Stream state detected prior state, could not locate msg block") ||
		strings.HasPrefix(said, "Stream state encountered internal inconsistency on recover"))
}

// Errorf logs an error. A client's missing permission is not an error of the server, so it
// is logged as a warning.
func (l *serverLog) Errorf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	if strings.Contains(text, " Violation - ") || strings.Contains(text, "authentication error") {
		l.log.Warn(text)
		return
	}
	l.log.Error(text)
}

func (l *serverLog) Debugf(format string, v ...any) { l.log.Tracef(format, v...) }

// Tracef drops protocol traces, which would contain message bodies.
func (l *serverLog) Tracef(string, ...any) {}

// Fatalf keeps the message for Start and does not end the process.
func (l *serverLog) Fatalf(format string, v ...any) {
	select {
	case l.fatal <- fmt.Sprintf(format, v...):
	default:
		l.log.Errorf(format, v...)
	}
}
