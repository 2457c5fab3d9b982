package queue

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestAUserWithNoOrTooManyRightsIsRefused(t *testing.T) {
	producer := []Grant{{RoleProducer, []string{"main"}}}
	for _, c := range []struct {
		user User
		says string
	}{
		{User{Name: "", Grants: producer}, "must be 1 to 64"},
		{User{Name: "a b", Grants: producer}, "must be 1 to 64"},
		{User{Name: `x"}`, Grants: producer}, "must be 1 to 64"},
		{User{Name: "a.b", Grants: producer}, "must be 1 to 64"},
		{User{Name: RunnerUser, Grants: producer}, "must be 1 to 64"},
		{User{Name: "app"}, "has no roles"},
		{User{Name: "app", Grants: []Grant{{"admin", []string{"main"}}}}, "must be producer, subscriber, viewer or operator"},
		{User{Name: "app", Grants: []Grant{{RoleViewer, nil}}}, "of no account"},
		{User{Name: "app", Grants: []Grant{{RoleViewer, []string{">"}}}}, "account name"},
	} {
		if err := CheckUser(c.user); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c.user, err)
		}
		if _, err := StartEmbedded(EmbeddedConfig{Listen: "127.0.0.1:0", StoreDir: t.TempDir(), Users: []User{c.user}, Verbs: testVerbs, Log: quiet()}); err == nil {
			t.Errorf("%+v starts", c.user)
		}
	}
}

// TestASubjectIsImportedOnce: a user of several roles would ask twice otherwise.
func TestASubjectIsImportedOnce(t *testing.T) {
	u := User{Name: "all", Password: "pw", Grants: []Grant{
		{RoleOperator, []string{"main", "b"}}, {RoleViewer, []string{"main"}}, {RoleProducer, []string{"main"}}, {RoleSubscriber, []string{"b", "main"}},
	}}
	seen := map[string]bool{}
	for _, r := range u.rights(testVerbs) {
		if seen[r.here()] {
			t.Errorf("%s appears twice", r.here())
		}
		seen[r.here()] = true
	}
	server := startServer(t, t.TempDir(), u)
	q := connect(t, server)
	asked := make(chan string, 8)
	stop, err := serveAccount(q, "1.0.0", map[string]Handler{"status": func(ctx context.Context, _ []byte) ([]byte, error) {
		asked <- Caller(ctx)
		return []byte("{}"), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(server.URL(), nats.UserInfo("all", "pw"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Request("perennial.svc.main.status", nil, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if caller := receive(t, asked); caller != "all" || len(asked) != 0 {
		t.Errorf("asked by %q, and %d times more", caller, len(asked))
	}
}

// TestARequestForAnAnswerElsewhereIsLeftAlone: with a deliver subject JetStream sends
// events to a verb, and on a server without accounts a reply may be any subject.
func TestARequestForAnAnswerElsewhereIsLeftAlone(t *testing.T) {
	q := newQueue(t)
	asked := make(chan struct{}, 8)
	stop, err := serveAccount(q, "1.0.0", map[string]Handler{"pause": func(context.Context, []byte) ([]byte, error) {
		asked <- struct{}{}
		return []byte("{}"), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, reply := range []string{"", "perennial.events.main.pwned", "$JS.API.STREAM.PURGE.PERENNIAL_COMMANDS_main", "$KV.X.y", "$JS.ACK.a.b.1.2.3.4.5"} {
		if err := q.nc.PublishMsg(&nats.Msg{Subject: ServiceSubject("main", "pause"), Reply: reply, Data: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := q.nc.Request(ServiceSubject("main", "pause"), nil, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if len(asked) != 1 {
		t.Errorf("it was carried out %d times", len(asked))
	}
}

// TestStreamsStayWhenUsersComeAndGo: the runner's NATS account has another name then.
func TestStreamsStayWhenUsersComeAndGo(t *testing.T) {
	dir, users := t.TempDir(), []User{{Name: "app", Password: "pw", Grants: []Grant{{RoleProducer, []string{"main"}}}}}
	for stored, users := range [][]User{nil, users, users, nil, users} {
		s, err := StartEmbedded(EmbeddedConfig{Listen: "127.0.0.1:0", StoreDir: dir, Users: users, Verbs: testVerbs, Log: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		q := connect(t, s)
		if err := q.EnsureStreams(within(t), "main", 1); err != nil {
			t.Fatal(err)
		}
		if err := q.PublishCommand(within(t), "main", KindProxyRenew, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		stream, err := q.js.Stream(within(t), CommandsStream("main"))
		if err != nil || stream.CachedInfo().State.Msgs != uint64(stored+1) {
			t.Errorf("start %d: %v %v", stored+1, stream, err)
		}
		q.Close()
		s.Shutdown()
	}
}

// TestTLSIsNoLogin: it proves who the server is, and lets every client in.
func TestTLSIsNoLogin(t *testing.T) {
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, TLS: true, TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate(t)}}})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer s.Shutdown()
	if !s.ReadyForConnections(patience) {
		t.Fatal("not ready")
	}
	nc, err := nats.Connect(s.ClientURL(), nats.Secure(&tls.Config{InsecureSkipVerify: true}))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if q := (&Queue{nc: nc}); !q.Anonymous() {
		t.Error("a server without a login counts as one with")
	}
}

func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, about, about, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestTheBrokerMakesNoConsumerThatPushes, and keeps the consumers of one user from another.
func TestTheBrokerMakesNoConsumerThatPushes(t *testing.T) {
	subscriber := []Grant{{RoleSubscriber, []string{"main"}}}
	s := startServer(t, t.TempDir(), User{"one", "pw", subscriber}, User{"two", "pw", subscriber})
	q := connect(t, s)
	if err := q.EnsureStreams(within(t), "main", 1); err != nil {
		t.Fatal(err)
	}
	stop, err := q.ServeBroker("main")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stop() }()
	var raw *nats.Conn
	user := func(name string) jetstream.JetStream {
		nc, err := nats.Connect(s.URL(), nats.UserInfo(name, "pw"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		raw = nc
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		return js
	}
	one, two := user("one"), user("two")
	if _, err := one.CreatePushConsumer(within(t), EventsStream("main"), jetstream.ConsumerConfig{DeliverSubject: "perennial.svc.b.resume"}); err == nil {
		t.Error("a consumer pushes")
	}
	for _, config := range []string{ // JetStream reads keys in any case, and the last of two
		`{"Deliver_Subject":"perennial.svc.b.resume"}`, `{"deliver_subject":"","DELIVER_SUBJECT":"perennial.svc.b.resume"}`,
		`{"deliver_group":"g","deliver_subjecT":"perennial.svc.b.resume"}`, `{"name":"a.b"}`, `{"name":"a b"}`, `{"durable_name":">"}`,
	} {
		answer, err := raw.Request("$JS.API.CONSUMER.CREATE."+EventsStream("main"), []byte(`{"stream_name":"`+EventsStream("main")+`","config":`+config+`}`), 10*time.Second)
		if err != nil || !strings.Contains(string(answer.Data), `"code":403`) {
			t.Errorf("%s: %v %v", config, answer, err)
		}
	}
	for _, many := range []string{`{"seq":1,"batch":1000}`, `{"seq":1,"BATCH":2}`, `{"multi_last":["perennial.events.main.>"]}`, `{"seq":1,"batch":1,"max_bytes":1000000}`} {
		answer, err := raw.Request("$JS.API.DIRECT.GET."+EventsStream("main"), []byte(many), 10*time.Second)
		if err != nil || answer.Header.Get("Status") != "408" || !strings.Contains(answer.Header.Get("Description"), "for one") {
			t.Errorf("%s: %v %v", many, answer, err)
		}
	}
	config := jetstream.ConsumerConfig{Durable: "mine"}
	if _, err := one.CreateConsumer(within(t), EventsStream("main"), config); err != nil {
		t.Fatal(err)
	}
	if _, err := one.UpdateConsumer(within(t), EventsStream("main"), config); err != nil {
		t.Error(err)
	}
	if _, err := one.UpdateConsumer(within(t), EventsStream("main"), jetstream.ConsumerConfig{Durable: "none"}); !errors.Is(err, jetstream.ErrConsumerDoesNotExist) {
		t.Errorf("one that is not there: %v", err)
	}
	if _, err := two.UpdateConsumer(within(t), EventsStream("main"), config); err == nil {
		t.Error("it is another user's to change")
	}
	if err := two.DeleteConsumer(within(t), EventsStream("main"), "none"); !errors.Is(err, jetstream.ErrConsumerNotFound) {
		t.Errorf("one that is not there: %v", err)
	}
	b := &broker{queue: q, account: "main"}
	if err := b.deletes("none", "two", false); err == nil { // made meanwhile, it would be gone
		t.Error("one that is not there is passed on")
	}
	if err := two.DeleteConsumer(within(t), EventsStream("main"), "mine"); err == nil {
		t.Error("it is another user's to delete")
	}
}

// TestCommandsGoOneByOneWhereBatchesAreTaken: one publisher opens as many as the stream
// takes, and ends none.
func TestCommandsGoOneByOneWhereBatchesAreTaken(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	for n := range 60 {
		m := nats.NewMsg(CommandSubject("main", KindProxyRenew))
		m.Header = nats.Header{HeaderBatchID: {fmt.Sprint("open-", n)}, HeaderBatchSequence: {"1"}}
		if _, err := q.nc.RequestMsg(m, 10*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	commands := []Outgoing{{Kind: KindProxyRenew, Data: []byte("1")}, {Kind: KindProxyRenew, Data: []byte("2")}, {Kind: KindOrderCreate, Data: []byte("3")}}
	if err := q.PublishCommands(within(t), "main", commands); err != nil {
		t.Fatal(err)
	}
	stream, err := q.js.Stream(within(t), CommandsStream("main"))
	if err != nil || stream.CachedInfo().State.Msgs != 3 {
		t.Errorf("%+v %v", stream, err)
	}
}
