//go:build check

// The servers and configurations of docs/nats.md.

package crashtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"perennial/queue"
)

// The test covers each section of docs/nats.md that has files.
func TestEachWayIntoNATSWorks(t *testing.T) {
	t.Parallel()
	ways := 0
	for name, section := range natsSections(t) {
		parts := natsFiles.FindAllStringSubmatch(section, -1)
		if len(parts) == 0 || name == natsFromNothing {
			continue
		}
		ways++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newWay(t, parts).works()
		})
	}
	if ways != 5 {
		t.Errorf("%d ways are on the page", ways)
	}
}

// natsFromNothing is the section of docs/nats.md with its own test.
const natsFromNothing = "A cluster of three, from nothing"

// natsFiles matches the files of a section, which begin with a comment that has their name.
var natsFiles = regexp.MustCompile("(?s)```(?:conf|yaml)\n# (\\S+)\n(.*?)```")

// natsSections returns the sections of docs/nats.md by heading.
func natsSections(t testing.TB) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../../../../docs/nats.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, section := range strings.Split(string(page), "\n## ")[1:] {
		name, text, _ := strings.Cut(section, "\n")
		sections[name] = text
	}
	return sections
}

// way is the files of one section, adapted to a world.
type way struct {
	w       *world
	files   map[string]string
	servers []string // files of servers, in the order of the page
	secret  string   // the NKey's seed
}

func newWay(t testing.TB, parts [][]string) *way {
	t.Helper()
	x := &way{w: newWorld(t, 4), files: map[string]string{}}
	etc := filepath.Join(x.w.dir, "etc")
	if err := os.Mkdir(etc, 0o700); err != nil {
		t.Fatal(err)
	}
	public := x.makeIdentities(etc)
	replaced := []string{"/etc/nats/", etc + "/", "/var/lib/nats", filepath.Join(x.w.dir, "store"), "UPUBLICKEY", public}
	for _, port := range []string{"4222", "4223", "7422"} {
		replaced = append(replaced, "127.0.0.1:"+port, fmt.Sprintf("127.0.0.1:%d", freePort(t)))
	}
	for _, part := range parts {
		if part[1] != "perennial.yaml" {
			x.servers = append(x.servers, part[1])
		}
		x.files[part[1]] = strings.NewReplacer(replaced...).Replace(part[2])
	}
	return x
}

const wayPassword = "canary-of-nats-5Ht8"

// makeIdentities writes certificates, an NKey and a password. It returns the NKey's public key.
func (x *way) makeIdentities(dir string) (public string) {
	t := x.w.t
	t.Helper()
	write := func(name string, text []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	authority := newCertificate(t, nil, "ca")
	write("ca.pem", authority.pem)
	for _, name := range []string{"server", "client"} {
		c := newCertificate(t, authority, name)
		write(name+".pem", c.pem)
		write(name+".key", c.key(t))
		if name == "client" { // trap 76: an editor's byte order mark
			write(name+".key", append([]byte("\ufeff"), c.key(t)...))
		}
	}
	pair, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, _ := pair.Seed()
	public, _ = pair.PublicKey()
	x.secret = string(seed)
	write("perennial.nk", append([]byte("\ufeff"), seed...))
	write("perennial.password", []byte("\ufeff"+wayPassword))
	return public
}

// certificate is a certificate with its key.
type certificate struct {
	parsed  *x509.Certificate
	private *ecdsa.PrivateKey
	pem     []byte
}

// newCertificate returns a certificate for this machine, signed by another one. If by is nil, the
// certificate is self-signed.
func newCertificate(t testing.TB, by *certificate, name string) *certificate {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &certificate{private: private}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true, IsCA: by == nil,
	}
	signer := &certificate{parsed: template, private: private}
	if by != nil {
		signer = by
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer.parsed, &private.PublicKey, signer.private)
	if err == nil {
		c.parsed, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	c.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return c
}

func (c *certificate) key(t testing.TB) []byte {
	t.Helper()
	der, err := x509.MarshalECPrivateKey(c.private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

// works starts the servers and a runner, and orders through them. A server with users must then
// refuse a client without a login.
func (x *way) works() {
	t := x.w.t
	t.Helper()
	for _, name := range x.servers {
		x.start(name)
	}
	x.w.configure("", "")
	x.w.reconfigure(`nats: {url: "", listen: 127.0.0.1:0}`, strings.TrimSpace(x.files["perennial.yaml"]))
	run, line := x.w.run()
	x.w.readySays(line, ready)
	x.w.mustCLI("order", "--item", "off_us_1=2", "--id", "o-1", "--wait")
	x.w.mustCLI("renew", "px_1", "--id", "r-1", "--wait")
	if out := x.w.mustCLI("ledger", "verify", "--against-events"); !strings.Contains(out, "events") {
		t.Errorf("%s", out)
	}
	if code := run.terminate(); code != 0 {
		t.Errorf("run ended with %d\n%s", code, run.stderr)
	}
	for _, secret := range []string{wayPassword, x.secret, worldSecret} {
		if strings.Contains(run.stderr.String(), secret) {
			t.Error("the log holds a secret")
		}
	}
	if strings.Contains(x.files[x.servers[0]], "store/hub") {
		x.streamsAreIn("hub", "edge")
	}
	if strings.Contains(x.files[x.servers[0]], "users:") {
		if q, err := queue.Connect(queue.ConnectConfig{URL: line.NATS}); err == nil {
			q.Close()
			t.Error("a client without a login is let in")
		}
	}
}

func (x *way) start(name string) {
	t := x.w.t
	t.Helper()
	x.w.write(name, x.files[name], 0o600)
	cmd := natsServer(t, filepath.Join(x.w.dir, name))
	cmd.Env = append(cmd.Env, "PERENNIAL_PASSWORD="+wayPassword, "OTHERS_PASSWORD=another")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	at := regexp.MustCompile(`(?m)^listen: (\S+)$`).FindStringSubmatch(x.files[name])[1]
	await(t, name+" listens", func() bool {
		c, err := net.DialTimeout("tcp", at, time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

// streamsAreIn checks that one server's files hold the streams, and the other's hold none.
func (x *way) streamsAreIn(one, other string) {
	t := x.w.t
	t.Helper()
	var found []string
	for _, server := range []string{one, other} {
		streams, err := filepath.Glob(filepath.Join(x.w.dir, "store", server, "jetstream", "*", "streams", "PERENNIAL_EVENTS_main"))
		if err != nil {
			t.Fatal(err)
		}
		if len(streams) == 1 {
			found = append(found, server)
		}
	}
	if !slices.Equal(found, []string{one}) {
		t.Errorf("the events stream is on %v", found)
	}
}
