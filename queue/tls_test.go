package queue

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perennial/queue/natstest"
)

// The words must be the same each time.
func TestAFailureOfTLSSaysWhatToDo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"server", "other"} {
		writeCertificate(t, filepath.Join(dir, name), "127.0.0.1", time.Hour)
	}
	writeCertificate(t, filepath.Join(dir, "expired"), "127.0.0.1", -time.Hour)
	writeCertificate(t, filepath.Join(dir, "elsewhere"), "192.0.2.1", time.Hour)
	serve := func(name, more string) string {
		return natstest.Start(t, strings.ReplaceAll(fmt.Sprintf("tls {cert_file: D/%s.pem, key_file: D/%s.key, %s}", name, name, more), "D/", dir+"/")).ClientURL()
	}
	plain, private, first := natstest.Start(t, "server_name: plain").ClientURL(), serve("server", ""), serve("server", "handshake_first: true")
	verifying := serve("server", "ca_file: D/server.pem, verify: true")
	ca := func(name string) string { return filepath.Join(dir, name+".pem") }
	for name, c := range map[string]struct {
		config ConnectConfig
		says   string
	}{
		"a private authority":       {ConnectConfig{URL: private}, "ca_file"},
		"another authority":         {ConnectConfig{URL: private, CAFile: ca("other")}, "ca_file"},
		"an expired certificate":    {ConnectConfig{URL: serve("expired", ""), CAFile: ca("expired")}, "is valid from"},
		"another name":              {ConnectConfig{URL: serve("elsewhere", ""), CAFile: ca("elsewhere")}, "for other names"},
		"no certificate of its own": {ConnectConfig{URL: verifying, CAFile: ca("server")}, "cert_file"},
		"one of another authority":  {ConnectConfig{URL: verifying, CAFile: ca("server"), CertFile: ca("other"), KeyFile: filepath.Join(dir, "other.key")}, "cert_file"},
		"a server without TLS":      {ConnectConfig{URL: strings.Replace(plain, "nats:", "tls:", 1)}, "has no TLS"},
		"no server that begins":     {ConnectConfig{URL: plain, TLSFirst: true}, "leave out nats.tls_first"},
		"a server that begins":      {ConnectConfig{URL: first, CAFile: ca("server")}, "tls_first"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.config.Log = natstest.Quiet()
			var said string
			for range 2 {
				_, err := Connect(c.config)
				if err == nil || !strings.Contains(err.Error(), c.says) || said != "" && err.Error() != said {
					t.Error(err)
					continue
				}
				said = err.Error()
			}
		})
	}
}

// A server that has spoken without TLS does not begin with TLS, whatever happens later.
func TestAConnectionThatIsResetLaterIsNoTLS(t *testing.T) {
	t.Parallel()
	q := &Queue{}
	if said := q.tlsFault(io.EOF); !strings.Contains(said, "tls_first") {
		t.Errorf("at first: %q", said)
	}
	server, client := net.Pipe()
	go func() { _, _ = server.Write([]byte("INFO {}\r\n")) }()
	_, err := (&heardConn{client, &q.dialer}).Read(make([]byte, 16))
	if said := q.tlsFault(io.EOF); said != "" || err != nil {
		t.Errorf("later: %q, %v", said, err)
	}
}

// The connection is made although server and client would each wait for the other.
func TestTLSFirst(t *testing.T) {
	t.Parallel()
	at := filepath.Join(t.TempDir(), "server")
	writeCertificate(t, at, "127.0.0.1", time.Hour)
	server := natstest.Start(t, fmt.Sprintf("tls {cert_file: %s.pem, key_file: %s.key, handshake_first: true}", at, at))
	q, err := Connect(ConnectConfig{URL: server.ClientURL(), CAFile: at + ".pem", TLSFirst: true, Log: natstest.Quiet()})
	natstest.Check(t, err)
	q.Close()
}

// writeCertificate writes a self-signed certificate and its key.
func writeCertificate(t *testing.T, path, address string, ends time.Duration) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	natstest.Check(t, err)
	about := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(ends),
		IPAddresses: []net.IP{net.ParseIP(address)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	natstest.Check(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	natstest.Check(t, err)
	natstest.Check(t, os.WriteFile(path+".pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	natstest.Check(t, os.WriteFile(path+".key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
}
