package queue

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/sirupsen/logrus"

	"perennial/ledger/files"
	"perennial/queue/natstest"
)

func TestEmbeddedServerListensOnLoopbackOnly(t *testing.T) {
	for _, listen := range []string{"0.0.0.0:0", ":4222", "192.0.2.1:4222", "example.com:1", "127.0.0.1:99999", "nonsense"} {
		_, err := StartEmbedded(EmbeddedConfig{Listen: listen, StoreDir: t.TempDir(), Log: quiet()})
		if err == nil || !strings.Contains(err.Error(), "nats.listen") {
			t.Errorf("%s: %v", listen, err)
		}
	}
}

func TestEmbeddedServerSaysThatItsPortIsTaken(t *testing.T) {
	first := startServer(t, t.TempDir())
	_, err := StartEmbedded(EmbeddedConfig{Listen: strings.TrimPrefix(first.URL(), "nats://"), StoreDir: t.TempDir(), Log: quiet()})
	if err == nil || !strings.Contains(err.Error(), "in use") {
		t.Fatal(err)
	}
}

// TestTheEmbeddedServerBoundsItsConnections: without users too; the runner's own stays.
func TestTheEmbeddedServerBoundsItsConnections(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir())
	q, err := Connect(ConnectConfig{Embedded: s, Log: quiet()})
	check(t, err)
	t.Cleanup(q.Close)
	refused := false
	for n := 0; n < 2*anyConnections && !refused; n++ { // on a slow machine some may be closed
		c, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "nats://"))
		check(t, err)
		t.Cleanup(func() { _ = c.Close() })
		_, _ = c.Write([]byte("CONNECT {\"verbose\":false}\r\nPING\r\n")) // one that says nothing is closed after two seconds
		for lines := bufio.NewScanner(c); lines.Scan() && lines.Text() != "PONG" && !refused; {
			refused = strings.Contains(lines.Text(), "maximum connections exceeded")
		}
	}
	if !refused {
		t.Error("no connection was refused")
	}
	check(t, q.Probe(within(t)))
}

// TestAKillIsNoWarning: the server's index is older than its data then, and it reads the
// data. Its lines about that look like a loss to a person who starts the runner again.
func TestAKillIsNoWarning(t *testing.T) {
	dir, killed := t.TempDir(), t.TempDir()
	first := startServer(t, dir)
	q := connect(t, first)
	check(t, q.EnsureStreams(within(t), "main", 1))
	check(t, q.PublishCommand(within(t), "main", KindOrderCreate, []byte(`{}`)))
	check(t, first.Restart()) // writes the index
	q = connect(t, first)
	check(t, q.PublishCommand(within(t), "main", KindOrderCreate, []byte(`{}`)))
	check(t, os.CopyFS(killed, os.DirFS(dir))) // as a kill leaves it
	said := &bytes.Buffer{}
	log := logrus.New()
	log.SetOutput(said)
	log.SetLevel(logrus.DebugLevel)
	again, err := StartEmbedded(EmbeddedConfig{Listen: "127.0.0.1:0", StoreDir: killed, Log: log})
	check(t, err)
	again.Shutdown()
	if text := said.String(); !strings.Contains(text, "will rebuild") || strings.Contains(text, "level=warning") {
		t.Errorf("the server says:\n%s", text)
	}
}

func TestEmbeddedServerWithUsersRefusesStrangers(t *testing.T) {
	server := startServer(t, t.TempDir(), User{Name: "ops", Password: "pw", Grants: []Grant{{RoleOperator, []string{"main"}}}})
	if _, err := Connect(ConnectConfig{URL: server.URL(), Log: quiet()}); !errors.Is(err, nats.ErrAuthorization) {
		t.Fatal(err)
	}
	if q := connect(t, server); !q.nc.IsConnected() {
		t.Fatal("the runner itself is refused")
	}
}

func TestAServerWithoutALoginIsNoticed(t *testing.T) {
	open, closed := startServer(t, t.TempDir()), startServer(t, t.TempDir(), User{Name: "ops", Password: "pw", Grants: []Grant{{RoleOperator, []string{"main"}}}})
	for server, anonymous := range map[*Embedded]bool{open: true, closed: false} {
		if q := connect(t, server); q.Anonymous() != anonymous {
			t.Errorf("anonymous: %t", !anonymous)
		}
	}
}

func TestNoErrorSaysThePasswordOfAnAddress(t *testing.T) {
	for _, address := range []string{
		"nats://u:hunter2@127.0.0.1:bad", "nats://u:hunter2 @127.0.0.1:1", "nats://u:hunter2@127.0.0.1:1", "nats://u:hunter2@[::1", "u:hunter2@127.0.0.1:1",
		"nats://hunter2@127.0.0.1:1", "nats://u:hunter2#@127.0.0.1:1", "tls://u:x@127.0.0.1:1,nats://hunter2@127.0.0.1:1", "nats://u:%hunter2@127.0.0.1:1",
	} {
		_, err := Connect(ConnectConfig{URL: address, Log: quiet()})
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v", err)
		}
	}
}

func TestNATSContextOfTheCommandLineIsUsed(t *testing.T) {
	server := startServer(t, t.TempDir(), User{Name: "ops", Password: "pw", Grants: []Grant{{RoleOperator, []string{"main"}}}})
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	dir := filepath.Join(home, "nats", "context")
	check(t, os.MkdirAll(dir, 0o700))
	check(t, os.WriteFile(filepath.Join(dir, "here.json"), []byte(`{"url":"`+server.URL()+`","user":"ops","password":"pw"}`), 0o600))
	q, err := Connect(ConnectConfig{Context: "here", Log: quiet()})
	check(t, err)
	q.Close()
	for _, name := range []string{"missing", "../here", ""} {
		if _, err := Connect(ConnectConfig{Context: name, Log: quiet()}); err == nil {
			t.Errorf("context %q was accepted", name)
		}
	}
}

// TestMembersOfANATSContext that say how the connection is made are used, or refused by name.
func TestMembersOfANATSContext(t *testing.T) {
	server := natstest.Start(t, `jetstream {store_dir: $STORE}
accounts {
  STREAMS {jetstream: enabled, users: [{user: s, password: pw}], exports: [{service: "$JS.API.>", response_type: stream}]}
  RUN {users: [{user: ops, password: pw, permissions: {subscribe: ["_mine.>", "perennial.>"]}}], imports: [{service: {account: STREAMS, subject: "$JS.API.>"}, to: "js.streams.>"}]}
}`)
	home := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", home)
	check(t, os.MkdirAll(filepath.Join(home, "nats", "context"), 0o700))
	through := func(members string) (*Queue, error) {
		text := `{"url":"` + server.ClientURL() + `","user":"ops","password":"pw","inbox_prefix":"_mine"` + members + `}`
		check(t, os.WriteFile(filepath.Join(home, "nats", "context", "here.json"), []byte(text), 0o600))
		return Connect(ConnectConfig{Context: "here", Log: quiet()})
	}
	for members, names := range map[string]string{
		`,"socks_proxy":"socks5://127.0.0.1:1"`:                         "socks_proxy",
		`,"nsc":"nsc://o/a/u","later":{"x":1},"user_jwt":""`:            "later, nsc",
		`,"jetstream_domain":"hub","jetstream_api_prefix":"js.streams"`: "exclude each other",
	} {
		if q, err := through(members); err == nil || !strings.Contains(err.Error(), names) || !strings.Contains(err.Error(), "here.json") {
			t.Errorf("%s: %v", members, err)
			if err == nil {
				q.Close()
			}
		}
	}
	q, err := through(`,"jetstream_api_prefix":"js.streams","description":"ours","color_scheme":"red","socks_proxy":"","nsc":null`)
	check(t, err)
	t.Cleanup(q.Close)
	if _, err := q.js.AccountInfo(within(t)); err != nil {
		t.Error(err)
	}
	_, err = q.nc.Subscribe("perennial.commands.main.order.create", func(m *nats.Msg) {
		_ = m.Respond([]byte(`{"seq":1}`))
		_ = q.JetStream().Answer("main", ReplyTo(m.Header), []byte("done"))
	})
	check(t, err)
	if answer, err := q.CarryOut(within(t), "main", Outgoing{Kind: KindOrderCreate, Data: []byte("{}")}); string(answer) != "done" {
		t.Errorf("%s %v", answer, err)
	}
}

func TestSecondProcessIsKeptOutOfTheDataDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	lock, err := LockDir(dir)
	check(t, err)
	_, err = LockDir(dir)
	if !errors.Is(err, ErrDirectoryLocked) || strings.Count(err.Error(), "\n") != 2 {
		t.Fatal(err)
	}
	check(t, lock.Unlock())
	lock, err = LockDir(dir)
	check(t, err)
	check(t, lock.Unlock())
}

// TestARemovedLockLetsNobodyIn: it is made again, and where an older version, which asks for
// the file alone, was faster, its holder knows from then on.
func TestARemovedLockLetsNobodyIn(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	lock, err := LockDir(dir)
	check(t, err)
	path := filepath.Join(dir, LockName)
	check(t, lock.Check())
	check(t, os.Remove(path))
	if _, err := LockDir(dir); !errors.Is(err, ErrDirectoryLocked) {
		t.Errorf("a second process: %v", err)
	}
	check(t, lock.Check())
	if _, got, err := files.TryLock(path); got || err != nil {
		t.Errorf("the lock was not made again: %v", err)
	}
	check(t, os.Remove(path))
	older, got, err := files.TryLock(path)
	if err != nil || !got {
		t.Fatal(got, err)
	}
	for range 2 {
		if err := lock.Check(); !errors.Is(err, ErrDirectoryLocked) || !strings.Contains(err.Error(), path) {
			t.Errorf("while an older version works there, and after it: %v", err)
		}
		check(t, older.Unlock())
	}
	check(t, lock.Unlock())
	lock, err = LockDir(dir)
	check(t, err)
	check(t, lock.Unlock())
}

// TestALockTakenWhileItIsLookedAtIsMissed: whatever the two do at the same moment, the one that
// has no lock any more says so.
func TestALockTakenWhileItIsLookedAtIsMissed(t *testing.T) {
	dir := t.TempDir()
	for range 300 {
		lock, err := LockDir(dir)
		check(t, err)
		stop, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			for lock.Check() == nil {
				select {
				case <-stop:
					return
				default:
				}
			}
		}()
		path, unlock := filepath.Join(dir, LockName), func() error { return nil }
		for got := false; !got; {
			_ = os.Remove(path)
			older, now, err := files.TryLock(path)
			check(t, err)
			if got = now; got {
				unlock = older.Unlock
			}
		}
		close(stop)
		<-done
		if err := lock.Check(); !errors.Is(err, ErrDirectoryLocked) {
			t.Fatalf("an older version has the lock, and: %v", err)
		}
		check(t, errors.Join(unlock(), lock.Unlock()))
	}
}

func TestAccountNamesThatCouldEscapeTheirSubjectAreRefused(t *testing.T) {
	for _, name := range []string{"main", "a", "eu-1", strings.Repeat("x", 32)} {
		check(t, ValidAccount(name))
	}
	for _, name := range []string{"", "Main", "a.b", "*", ">", "a b", "ä", "main\n", strings.Repeat("x", 33)} {
		if ValidAccount(name) == nil {
			t.Errorf("%q was accepted", name)
		}
	}
}

// A disk that was full ends JetStream in the server for good. It is seen, and behind
// a restart the same intake goes on, with what was published before and after.
func TestAnEmbeddedServerThatStoresNothingIsSeenAndRestarted(t *testing.T) {
	t.Parallel()
	server := startServer(t, t.TempDir())
	q := connect(t, server)
	check(t, q.EnsureStreams(within(t), "main", 1))
	intake := openIntake(t, q)
	check(t, q.PublishCommand(within(t), "main", KindProxyRenew, []byte(`1`)))
	if err := server.Failing(); err != nil {
		t.Fatal(err)
	}
	address := server.URL()
	check(t, server.now().ShutdownJetStream()) // as the server does where no space is left
	if err := server.Failing(); err == nil {
		t.Error("it looks healthy")
	}
	check(t, server.Restart())
	if err := server.Failing(); err != nil || server.URL() != address {
		t.Errorf("behind the restart, at %s: %v", server.URL(), err)
	}
	check(t, q.JetStream().AwaitConnected(within(t)))
	ctx := within(t)
	for published := false; !published; check(t, ctx.Err()) {
		try, cancel := context.WithTimeout(ctx, time.Second) // what is asked while it is away is not answered
		published = q.PublishCommand(try, "main", KindProxyRenew, []byte(`2`)) == nil
		cancel()
	}
	for seen := map[string]bool{}; !seen["1"] || !seen["2"]; {
		for _, m := range take(t, intake, 1) {
			seen[string(m.Data)] = true
			check(t, m.Ack())
		}
	}
}
