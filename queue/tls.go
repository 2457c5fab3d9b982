// This file describes TLS failures of a connection, in text that is the same at each
// attempt.

package queue

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
)

// tlsError is a TLS failure. Its text does not contain the cause, which includes ports and
// times that differ at each attempt.
type tlsError struct {
	text  string
	cause error
}

func (e *tlsError) Error() string { return e.text }
func (e *tlsError) Unwrap() error { return e.cause }

// dialer records whether the server has sent anything on the current connection. If it has
// not, an error concerns the start of the connection.
type dialer struct {
	net.Dialer
	heard atomic.Bool
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
	case !q.config.TLSFirst && !q.dialer.heard.Load() && (cut || op != nil && op.Op == "read" && op.Timeout()):
		return "the NATS server takes the connection and says nothing: where it begins with TLS (handshake_first), set nats.tls_first: true"
	}
	return certificateFault(err)
}

// asksForTLS reports whether the configuration requires TLS.
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
