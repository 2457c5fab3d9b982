package queue

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
	"github.com/sirupsen/logrus"

	"perennial/ledger/files"
)

// ConnectConfig says which NATS server to use. Exactly one of Embedded, URL and Context
// must be set.
type ConnectConfig struct {
	Embedded  InProcess // a server inside this process
	URL       string    // nats://host:port, or several separated by commas
	CredsFile string    // credentials file for URL; optional
	NKeyFile  string    // file with the seed of an NKey for URL; optional
	User      string    // used if URL contains no user; optional
	Password  string    // password of User
	CAFile    string    // certificates that verify the server's certificate; default: those of the system
	CertFile  string    // file with the client's certificate; optional
	KeyFile   string    // file with the key of CertFile
	TLSFirst  bool      // TLS starts before the server sends anything (handshake_first)
	Domain    string    // JetStream domain of the streams, if a leaf node leads to them; default: the server's own
	Context   string    // name of a NATS CLI context
	Name      string    // name of this connection at the server; default "perennial"
	Wait      bool      // keep trying if the server cannot be reached or refuses the login; default: return an error
	// Reconnected is called when the connection is restored, or when the first connection is
	// made after a failed attempt. It may be a connection to another server, with other data. It
	// may be nil.
	Reconnected func()
	Log         *logrus.Logger // default: logrus's standard logger
}

// InProcess is a server inside this process.
type InProcess interface {
	URL() string
	// ConnectOptions returns options for connecting as the runner, without a socket.
	ConnectOptions() []nats.Option
}

// Queue is a connection to NATS. It reconnects automatically and without limit, even after
// a refused login. While the connection is down, publishing fails immediately and buffers
// nothing. All methods are safe for concurrent use.
type Queue struct {
	nc          *nats.Conn
	js          *JetStream
	config      ConnectConfig
	dialer      dialer
	met         atomic.Bool           // a connection was made at least once
	failed      atomic.Pointer[error] // why the connection is down
	attempts    atomic.Int64          // number of failed attempts
	reconnected func()
	log         *logrus.Entry
}

// JetStream returns the JetStream of the connection, for the packages under queue.
func (q *Queue) JetStream() *JetStream { return q.js }

const (
	reconnectWait = 250 * time.Millisecond
	// A silent connection is dropped after pingsOut pings without a reply, which takes about
	// nine seconds. Then the client reconnects.
	pingInterval = 3 * time.Second
	pingsOut     = 2
	// logAgainAfter is the minimum interval between log entries about a connection that is down.
	logAgainAfter = 30 * time.Second
)

// Connect connects to NATS. If Wait is set, it returns immediately and connects when the server
// can be reached. An error names the address that was tried.
func Connect(config ConnectConfig) (*Queue, error) {
	q := &Queue{
		log:         cmp.Or(config.Log, logrus.StandardLogger()).WithField("part", "queue"),
		config:      config,
		reconnected: config.Reconnected,
	}
	q.js = &JetStream{api: jetstream.DefaultAPIPrefix, where: config.where(), log: q.log}
	address, how, err := config.target()
	if err != nil {
		return nil, err
	}
	if config.Embedded == nil && !areAddresses(address) {
		return nil, fmt.Errorf("connect to nats at %s: %w", q.js.where, errNoURL)
	}
	options := how.options
	switch q.js.ownInbox = how.inbox != ""; {
	case how.domain != "":
		q.js.api = "$JS." + how.domain + ".API."
	case how.api != "":
		q.js.api = strings.TrimSuffix(how.api, ".") + "."
	}
	q.dialer.Timeout = nats.DefaultTimeout
	options = append(options, nats.Name(cmp.Or(config.Name, "perennial")),
		nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait), nats.ReconnectBufSize(-1),
		nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(pingsOut),
		nats.SetCustomDialer(&q.dialer), nats.IgnoreAuthErrorAbort(), nats.RetryOnFailedConnect(config.Wait), // a login that the server refuses now may be accepted later
		nats.ConnectHandler(q.onConnect), nats.ReconnectErrHandler(q.onFailedAttempt),
		nats.DisconnectErrHandler(q.onDisconnect), nats.ReconnectHandler(q.onReconnect), nats.ErrorHandler(q.onError))
	if q.nc, err = nats.Connect(address, options...); err != nil {
		if _, isURL := errors.AsType[*url.Error](err); isURL {
			err = errNoURL // the text of err contains the address with the password
		}
		return nil, fmt.Errorf("connect to nats at %s: %w", q.js.where, q.connectError(err))
	}
	if q.js.JetStream, err = jetstream.NewWithAPIPrefix(q.nc, q.js.api); err != nil {
		q.nc.Close()
		return nil, fmt.Errorf("jetstream: %w", err)
	}
	return q, nil
}

// LetsIn reports whether a server accepts a client without a login. The address must not
// contain a user, and Wait must not be set.
func LetsIn(config ConnectConfig) bool {
	config.User, config.Password, config.CredsFile, config.NKeyFile, config.CertFile, config.KeyFile, config.Context = "", "", "", "", "", "", ""
	q, err := Connect(config)
	if err != nil {
		return false
	}
	q.Close()
	return true
}

// Close ends the connection. Events that were not acknowledged may be lost. The outbox publishes
// them again over its next connection.
func (q *Queue) Close() { q.nc.Close() }

// URL returns the address of the connected server, or the configured address.
func (q *Queue) URL() string { return q.js.URL() }

// Anonymous reports whether the server accepts every client without a login. TLS alone
// authenticates the server, not the client.
func (q *Queue) Anonymous() bool { return !q.nc.AuthRequired() }

// Down returns why the connection is down. It returns "" if the connection is up.
func (q *Queue) Down() string {
	if q.nc.IsConnected() {
		return ""
	}
	// nats.go calls no handler for a refused login, or for failures before the first
	// connection.
	if err := q.nc.LastError(); err != nil && (!q.met.Load() || errors.Is(err, nats.ErrAuthorization)) {
		err = q.connectError(err)
		q.failed.Store(&err)
	}
	why := "NATS at " + q.js.where + " is not connected"
	if err := q.failed.Load(); err != nil {
		why += ": " + (*err).Error()
	}
	return why
}

// LocalAddress returns this machine's address as the server sees it. It returns "" if the
// server does not send it, for example to a client inside its process.
func (q *Queue) LocalAddress() string {
	ip, err := q.nc.GetClientIP()
	if err != nil || ip == nil {
		return ""
	}
	return ip.String()
}

func (q *Queue) onDisconnect(_ *nats.Conn, err error) {
	if err != nil {
		q.failed.Store(&err)
		q.log.WithError(err).Warn("connection to nats lost, reconnecting")
	}
}

// onFailedAttempt records why the server cannot be reached. It logs a new reason
// immediately, and the same reason at most once per logAgainAfter.
func (q *Queue) onFailedAttempt(_ *nats.Conn, err error) {
	err = q.connectError(err)
	before := q.failed.Swap(&err)
	changed := before == nil || (*before).Error() != err.Error()
	if n := q.attempts.Add(1); changed || n%int64(logAgainAfter/reconnectWait) == 0 {
		q.log.WithError(err).WithField("server", q.js.where).Warn("nats cannot be reached; it is tried again")
	}
}

func (q *Queue) onConnect(nc *nats.Conn) {
	q.met.Store(true)
	if q.failed.Load() != nil {
		q.onReconnect(nc)
	}
}

func (q *Queue) onReconnect(nc *nats.Conn) {
	q.failed.Store(nil)
	if q.reconnected != nil {
		q.reconnected()
	}
	q.log.WithField("server", Redacted(nc.ConnectedUrl())).Info("connected to nats")
}

func (q *Queue) onError(_ *nats.Conn, _ *nats.Subscription, err error) {
	if !q.js.denials.heard(err) { // the pending request returns the error
		q.log.WithError(err).Warn("nats")
	}
}

func (c ConnectConfig) where() string {
	switch {
	case c.Embedded != nil:
		return c.Embedded.URL()
	case c.Context != "":
		return "context " + c.Context
	default:
		return Redacted(c.URL)
	}
}

// areAddresses reports whether all addresses have a host and a NATS scheme. The client
// library would interpret other text as a server on this machine.
func areAddresses(addresses string) bool {
	for address := range strings.SplitSeq(addresses, ",") {
		if address = strings.TrimSpace(address); !strings.Contains(address, "://") {
			address = "nats://" + address
		}
		u, err := url.Parse(address)
		if err != nil || u.Host == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			return false
		}
	}
	return true
}

var errNoURL = errors.New("it must be nats://host:port, or several joined by commas")

// Redacted removes the user, password or token from addresses, for errors and logs.
func Redacted(addresses string) string {
	parts := strings.Split(addresses, ",")
	for i, address := range parts {
		address = strings.TrimSpace(address)
		if !strings.Contains(address, "://") {
			address = "nats://" + address
		}
		u, err := url.Parse(address)
		switch {
		case err != nil:
			parts[i] = "an address that is no URL"
		case u.User != nil:
			parts[i] = u.Scheme + "://xxxxx@" + u.Host
		default:
			parts[i] = u.Scheme + "://" + u.Host
		}
	}
	return strings.Join(parts, ",")
}

func (c ConnectConfig) target() (string, entry, error) {
	switch {
	case c.Embedded != nil:
		return c.Embedded.URL(), entry{options: c.Embedded.ConnectOptions()}, nil
	case c.Context != "" && c.URL == "":
		return readContext(c.Context)
	case c.URL != "":
		// A user in the address takes precedence over User.
		how, err := access{
			Creds: c.CredsFile, NKey: c.NKeyFile, User: c.User, Password: c.Password, CA: c.CAFile, Cert: c.CertFile, Key: c.KeyFile, Domain: c.Domain, TLSFirst: c.TLSFirst,
		}.entry()
		return c.URL, how, err
	}
	return "", entry{}, errors.New("connect to nats: no address: give a URL, a context or an embedded server")
}

type entry struct {
	options []nats.Option
	domain  string
	api     string // prefix of the subjects of JetStream's API, instead of domain
	inbox   string // prefix of the connection's inboxes; "" for the default
}

// access has the settings of a connection, in the format of a context file of the NATS CLI.
type access struct {
	URL      string `json:"url"`
	Creds    string `json:"creds"`
	NKey     string `json:"nkey"`
	User     string `json:"user"`
	Password string `json:"password"`
	Token    string `json:"token"`
	CA       string `json:"ca"`
	Cert     string `json:"cert"`
	Key      string `json:"key"`
	Domain   string `json:"jetstream_domain"`
	TLSFirst bool   `json:"tls_first"`
	API      string `json:"jetstream_api_prefix"` // used instead of Domain
	Inbox    string `json:"inbox_prefix"`
}

// readContext reads $XDG_CONFIG_HOME/nats/context/NAME.json; the default of
// $XDG_CONFIG_HOME is ~/.config.
func readContext(name string) (string, entry, error) {
	if name != filepath.Base(name) || name == "." || name == ".." {
		return "", entry{}, fmt.Errorf("nats context %q: not a name", name)
	}
	base := os.Getenv("XDG_CONFIG_HOME") //nolint:forbidigo // where the NATS CLI stores its contexts
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", entry{}, fmt.Errorf("nats context %q: %w", name, err)
		}
		base = filepath.Join(home, ".config")
	}
	path := filepath.Join(base, "nats", "context", name+".json")
	text, err := private("context", path)
	if err != nil {
		return "", entry{}, err
	}
	var context access
	var how entry
	if err = json.Unmarshal(text, &context); err == nil {
		err = unsupported(text)
	}
	if err == nil {
		how, err = context.entry()
	}
	if err != nil {
		return "", entry{}, fmt.Errorf("nats context %s: %w", path, err)
	}
	return cmp.Or(context.URL, nats.DefaultURL), how, nil
}

// unsupported returns an error that lists the fields of a context that are set but not
// supported here. If they were ignored, the connection would differ from the one that the
// context describes.
func unsupported(text []byte) error {
	var members map[string]any
	if err := json.Unmarshal(text, &members); err != nil {
		return err
	}
	for _, about := range []string{"description", "color_scheme", "jetstream_event_prefix"} { // these fields do not affect the connection
		delete(members, about)
	}
	for field := range reflect.TypeFor[access]().Fields() {
		delete(members, field.Tag.Get("json"))
	}
	var names []string
	for name, value := range members {
		if value != nil && !reflect.ValueOf(value).IsZero() {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("%s cannot be used here: name another context, or set nats.url and what belongs to it", strings.Join(names, ", "))
}

// maxContext limits the size of a context file, and of each file that it refers to, in bytes.
const maxContext = 64 << 10

// readable returns an error if a path is not a readable file. The client library reads the
// file again at each connection, and would wait indefinitely for a named pipe.
func readable(what, file string) error {
	if file == "" {
		return nil
	}
	if _, err := files.Read(file, maxContext); err != nil {
		return fmt.Errorf("nats %s file: %w", what, err)
	}
	return nil
}

func private(what, file string) ([]byte, error) {
	text, err := files.Read(file, maxContext)
	if err != nil {
		return nil, fmt.Errorf("nats %s file: %w", what, err)
	}
	if text, err = files.Text(text); err != nil {
		err = fmt.Errorf("the nats %s file %s %w", what, file, err)
	}
	return text, err
}

func byNKey(file string) (nats.Option, error) {
	text, err := private("nkey", file)
	if err != nil {
		return nil, err
	}
	pair, err := nkeys.ParseDecoratedNKey(text)
	if err != nil {
		return nil, fmt.Errorf("nats nkey file %s: %w", file, err)
	}
	public, err := pair.PublicKey()
	return nats.Nkey(public, pair.Sign), err
}

// byCertificate returns the option that presents a client certificate. The files are read
// again at each connection.
func byCertificate(cert, key string) nats.Option {
	return nats.ClientTLSConfig(func() (c tls.Certificate, err error) {
		public, err := files.Read(cert, maxContext)
		if err != nil {
			return c, fmt.Errorf("nats cert file: %w", err)
		}
		secret, err := private("key", key)
		if err != nil {
			return c, err
		}
		if c, err = tls.X509KeyPair(public, secret); err != nil {
			err = fmt.Errorf("nats cert file %s, key file %s: %w", cert, key, err)
		}
		return c, err
	}, nil)
}

var validDomain = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func (a access) entry() (how entry, err error) {
	err = errors.Join(readable("ca", a.CA), readable("cert", a.Cert), readable("key", a.Key))
	if a.Creds != "" {
		_, secret := private("creds", a.Creds) // the client library finds the credentials even after a byte order mark
		err = errors.Join(err, secret)
	}
	if a.Domain != "" && !validDomain.MatchString(a.Domain) {
		err = errors.Join(err, fmt.Errorf("nats domain %.80q: must be 1 to 64 of a-z, A-Z, 0-9, - and _", a.Domain))
	}
	if a.Domain != "" && a.API != "" {
		err = errors.Join(err, errors.New("jetstream_domain and jetstream_api_prefix exclude each other: keep one"))
	}
	if err != nil {
		return how, err
	}
	how.domain, how.api, how.inbox = a.Domain, a.API, a.Inbox
	if a.Inbox != "" {
		how.options = append(how.options, nats.CustomInboxPrefix(a.Inbox))
	}
	if a.Creds != "" {
		how.options = append(how.options, nats.UserCredentials(a.Creds))
	}
	if a.NKey != "" {
		option, err := byNKey(a.NKey)
		if err != nil {
			return how, err
		}
		how.options = append(how.options, option)
	}
	if a.Cert != "" {
		how.options = append(how.options, byCertificate(a.Cert, a.Key))
	}
	if a.CA != "" { // after byCertificate, whose option resets the CA certificates
		how.options = append(how.options, nats.RootCAs(a.CA))
	}
	if a.TLSFirst {
		how.options = append(how.options, nats.TLSHandshakeFirst())
	}
	switch {
	case a.Token != "":
		how.options = append(how.options, nats.Token(a.Token))
	case a.User != "":
		how.options = append(how.options, nats.UserInfo(a.User, a.Password))
	}
	return how, nil
}

// Probe returns why the connection does not work now. It returns nil if the connection works. It
// notices a silent server earlier than the client, which needs several pings to notice. ctx must
// have a deadline.
func (q *Queue) Probe(ctx context.Context) error {
	if why := q.Down(); why != "" {
		return fmt.Errorf("%s", why)
	}
	if err := q.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("NATS at %s does not answer: %w", q.URL(), err)
	}
	return nil
}

// CheckReplicas returns why the server or cluster cannot keep streams with this number of
// replicas. It returns nil if the client sees no reason.
func (q *Queue) CheckReplicas(replicas int) error {
	if replicas <= 1 {
		return nil
	}
	if q.nc.ConnectedClusterName() == "" {
		return fmt.Errorf("%d replicas are asked for, and NATS at %s is a single server", replicas, q.URL())
	}
	if n := len(q.nc.Servers()); n < replicas {
		return fmt.Errorf("%d replicas are asked for, and the cluster of NATS at %s shows %d servers", replicas, q.URL(), n)
	}
	return nil
}

// Servers returns how many server addresses the client knows: the configured ones and those
// that the cluster has announced. It returns 1 if the connected server is not in a cluster.
func (q *Queue) Servers() int {
	if q.nc.ConnectedClusterName() == "" {
		return 1
	}
	return len(q.nc.Servers())
}

// tlsError is a TLS failure. Its text does not contain the cause, which includes ports and
// times that differ at each attempt.
type tlsError struct {
	text  string
	cause error
}

func (e *tlsError) Error() string { return e.text }
func (e *tlsError) Unwrap() error { return e.cause }

// dialer records whether the server has sent anything on the current connection. Before the
// first data arrives, an error concerns the start of the connection.
type dialer struct {
	net.Dialer
	heard atomic.Bool
	spoke atomic.Bool // a server has sent something on any connection
}

// Dial implements [nats.CustomDialer].
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	d.heard.Store(false)
	c, err := d.Dialer.Dial(network, address)
	if err != nil {
		return nil, err
	}
	return &heardConn{c, d}, nil
}

type heardConn struct {
	net.Conn
	by *dialer
}

func (c *heardConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.by.heard.Store(true)
		c.by.spoke.Store(true)
	}
	return n, err
}

// connectError replaces a TLS error of the last attempt with advice. It returns other
// errors unchanged.
func (q *Queue) connectError(err error) error {
	if text := q.tlsFault(err); text != "" {
		return &tlsError{text, err}
	}
	return err
}

func (q *Queue) tlsFault(err error) string {
	op, _ := errors.AsType[*net.OpError](err)
	_, plain := errors.AsType[tls.RecordHeaderError](err)
	cut := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	switch {
	case errors.Is(err, nats.ErrSecureConnWanted):
		return "the NATS server has no TLS: begin its address with nats://, without ca_file and cert_file, or set up its tls block"
	case plain:
		return "the NATS server does not begin with TLS: leave out nats.tls_first"
	case op != nil && op.Op == "remote error", cut && q.dialer.heard.Load() && q.config.asksForTLS(): // the alert is lost if the server resets the connection first
		return "the NATS server ends the TLS handshake: where it asks clients for a certificate (verify), set nats.cert_file and nats.key_file to one that its ca_file has signed"
	case !q.config.TLSFirst && !q.dialer.spoke.Load() && (cut || op != nil && op.Op == "read" && op.Timeout()):
		return "the NATS server takes the connection and says nothing: where it begins with TLS (handshake_first), set nats.tls_first: true"
	}
	return certificateFault(err)
}

func (c ConnectConfig) asksForTLS() bool {
	return c.TLSFirst || c.CAFile != "" || c.CertFile != "" || strings.HasPrefix(c.URL, "tls://")
}

// certificateFault describes what is wrong with the server's certificate. It returns "" if
// the error is not about a certificate.
func certificateFault(err error) string {
	refused, ok := errors.AsType[*tls.CertificateVerificationError](err)
	if !ok {
		return ""
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](refused.Err); ok && invalid.Reason == x509.Expired {
		return fmt.Sprintf("the NATS server's certificate is valid from %s to %s: renew it, or set this machine's clock",
			invalid.Cert.NotBefore.UTC().Format(time.RFC3339), invalid.Cert.NotAfter.UTC().Format(time.RFC3339))
	}
	if other, ok := errors.AsType[x509.HostnameError](refused.Err); ok {
		names := other.Certificate.DNSNames
		for _, ip := range other.Certificate.IPAddresses {
			names = append(names, ip.String())
		}
		return fmt.Sprintf("the NATS server's certificate is for other names: %.200q, and not for %.80q: name the server as its certificate does", names, other.Host)
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](refused.Err); ok {
		return "the NATS server's certificate is signed by an authority that this machine does not know: name its file in nats.ca_file"
	}
	return ""
}

var (
	// ErrNoAccount reports that the server has no streams of this account, because the account
	// is not configured there.
	ErrNoAccount = errors.New("the account is not configured on this server")

	// ErrStopping reports that the runner stopped or lost the account before it replied, or
	// that the connection was lost. A requested change may or may not have been made. Send the
	// request again.
	ErrStopping = errors.New("the runner stopped before it could answer")

	// ErrDisconnected reports that the connection to NATS was lost before a command was
	// published, or before its result arrived. Publishing the command again is safe, because a
	// command id is executed once.
	ErrDisconnected = errors.New("the connection to NATS was lost")
)

// StreamError reports a stream whose settings would lose data or break the order of
// commands. Field is the name of the setting in NATS's stream configuration.
type StreamError struct {
	Stream string
	Field  string
	Have   string
	Want   string
}

// Error says which stream and field is wrong, with both values.
func (e *StreamError) Error() string {
	return fmt.Sprintf("stream %s: %s is %s, must be %s: change it with `nats stream edit`, or move the stream away",
		e.Stream, e.Field, e.Have, e.Want)
}
