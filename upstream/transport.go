package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// newTransport returns a transport for HTTP/1.1 only. A connection then carries one request at
// a time, and each write belongs to that request.
func newTransport(roots *x509.CertPool) *http.Transport {
	dialer := &net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &countingConn{Conn: conn}, nil
		},
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		TLSNextProto:        map[string]func(string, *tls.Conn) http.RoundTripper{},
		TLSHandshakeTimeout: 15 * time.Second,
		MaxIdleConns:        512,
		MaxIdleConnsPerHost: 512,
		IdleConnTimeout:     60 * time.Second,
		DisableCompression:  true,
	}
}

// checkProxyVariables returns an error if the environment contains an invalid HTTP proxy
// address. net/http would ignore the proxy without an error. The error does not repeat the
// address, because it may contain a password.
func checkProxyVariables() error {
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"} {
		text := os.Getenv(name) //nolint:forbidigo // the variables that net/http reads
		if text != "" && !readableProxy(text) {
			return fmt.Errorf("the variable %s is not the address of a proxy, such as http://host:port: correct it or unset it", name)
		}
	}
	return nil
}

func readableProxy(text string) bool {
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	return err == nil && u.Hostname() != "" && HasPort(u) && slices.Contains([]string{"http", "https", "socks5", "socks5h"}, u.Scheme)
}

// countingConn counts write attempts before it makes them.
type countingConn struct {
	net.Conn
	writes atomic.Int64
}

func (c *countingConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

type sentTrace struct {
	trace       httptrace.ClientTrace
	asked       atomic.Bool // the transport has asked for a connection
	got         atomic.Bool // the transport has got a connection
	conn        atomic.Pointer[countingConn]
	before      atomic.Int64
	earlierSent atomic.Bool // an earlier connection for this request has written bytes
	reused      atomic.Bool // the connection was idle before
	unsent      bool        // the request could not be built
}

func newSentTrace() *sentTrace {
	t := &sentTrace{}
	t.trace.GetConn = func(string) { t.asked.Store(true) }
	t.trace.GotConn = t.gotConn
	return t
}

func (t *sentTrace) gotConn(info httptrace.GotConnInfo) {
	if t.got.Load() && t.wrote() {
		t.earlierSent.Store(true)
	}
	conn := info.Conn
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	counting, _ := conn.(*countingConn)
	if counting != nil {
		t.before.Store(counting.writes.Load())
	}
	t.conn.Store(counting)
	t.reused.Store(info.Reused)
	t.got.Store(true)
}

func (t *sentTrace) wrote() bool {
	counting := t.conn.Load()
	return counting == nil || counting.writes.Load() != t.before.Load()
}

// maybeSent reports whether a failed request may have sent a byte. canceled means that the
// context has ended. In that case the transport does not wait for its writer, and an open
// connection may still send bytes.
func (t *sentTrace) maybeSent(ownTransport, canceled bool) bool {
	switch {
	case t.unsent:
		return false
	case t.earlierSent.Load():
		return true
	case !t.got.Load():
		return !ownTransport && !t.asked.Load() // true for a custom transport that does not call the trace
	case canceled:
		return true
	}
	return t.wrote()
}

const maxNames = 200

const providerTrust = "if its authority is meant to be private, name that authority's file in account.ca_file"

// ProviderCertificate calls [CertificateFault] for the provider's certificate.
func ProviderCertificate(err error, now time.Time) (says, do string) {
	return CertificateFault(err, "the provider's", providerTrust, now)
}

// CertificateFault explains why the client rejected a server's certificate and what the
// operator can do. It returns "" if err is not a certificate error. whose begins the
// explanation, for example "the provider's". trust is the advice for an unknown certificate
// authority.
func CertificateFault(err error, whose, trust string, now time.Time) (says, do string) {
	refused, ok := errors.AsType[*tls.CertificateVerificationError](err)
	if !ok {
		return "", ""
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](refused.Err); ok && invalid.Reason == x509.Expired {
		if now.Before(invalid.Cert.NotBefore) {
			return whose + " certificate is not valid before " + invalid.Cert.NotBefore.UTC().Format(time.RFC3339), "look at this machine's clock"
		}
		return whose + " certificate expired at " + invalid.Cert.NotAfter.UTC().Format(time.RFC3339), "have it renewed where it is served, or look at this machine's clock"
	}
	if other, ok := errors.AsType[x509.HostnameError](refused.Err); ok {
		names := other.Certificate.DNSNames
		for _, ip := range other.Certificate.IPAddresses {
			names = append(names, ip.String())
		}
		return whose + " certificate is for other names: " + sanitizeName(strings.Join(names, ", "), maxNames), "look at the address, and at what is between here and there"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](refused.Err); ok {
		return whose + " certificate is signed by an authority that this machine does not know", trust
	}
	return whose + " certificate is refused: " + sanitizeName(refused.Err.Error(), maxNames), "have it replaced where it is served"
}
