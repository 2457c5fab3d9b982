package crashtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"perennial/cmd/perennial/internal/cli"
	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/cmd/perennial/internal/verbs"
	"perennial/ledger/fact"
	"perennial/ledger/testrun"
)

// natsUsers gives each role to a user of main. The account other has its own operator.
const natsUsers = `[
  {user: prod, password_file: nats.secret, roles: [{role: producer, accounts: [main]}]},
  {user: sub, password_file: nats.secret, roles: [{role: subscriber, accounts: [main]}]},
  {user: sub2, password_file: nats.secret, roles: [{role: subscriber, accounts: [main]}]},
  {user: view, password_file: nats.secret, roles: [{role: viewer, accounts: [main]}]},
  {user: ops, password_file: nats.secret, roles: [{role: operator, accounts: [main]}, {role: producer, accounts: [main]}]},
  {user: other-ops, password_file: nats.secret, roles: [{role: operator, accounts: [other]}, {role: producer, accounts: [other]}]}]`

const natsPassword = "Users-of-nats-7"

// natsServers names the servers on which each role is tested: the embedded one, and external ones
// with the configuration that `nats-config` prints.
type natsServers string

const (
	embeddedNATS natsServers = "embedded"
	externalNATS natsServers = "external"
	jwtNATS      natsServers = "jwt"
)

// withRoles runs two accounts with natsUsers.
func withRoles(t testing.TB, on natsServers) (w *world, run *process, line daemon.ReadyLine) {
	t.Helper()
	w = twoAccounts(t)
	w.write("nats.secret", natsPassword, 0o600)
	at := "nats: {listen: 127.0.0.1:0, users: " + natsUsers + "}"
	text, err := os.ReadFile(filepath.Join(w.dir, "perennial.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	configured := func(at string) {
		w.write("perennial.yaml", strings.Replace(string(text), `nats: {url: "", listen: 127.0.0.1:0}`, at, 1), 0o600)
	}
	configured(at)
	n := newNATSProcess(t, w)
	switch on {
	case externalNATS:
		n.startAs(w.mustCLI("nats-config"))
		configured(fmt.Sprintf("nats: {url: \"nats://127.0.0.1:%d\", sync_always: true, password_file: nats.secret, users: %s}", n.port, natsUsers))
	case jwtNATS:
		n.startOfJWTs(w.mustCLI("nats-config", "--nsc"))
		names := []string{"prod", "sub", "sub2", "view", "ops", "other-ops", "perennial"}
		users := natsUsers
		for _, user := range names {
			users = strings.Replace(users, "user: "+user+", password_file: nats.secret", "user: "+user+", creds_file: "+user+".creds", 1)
		}
		for _, user := range names {
			configured(fmt.Sprintf("nats: {url: \"nats://127.0.0.1:%d\", sync_always: true, creds_file: %s.creds, users: %s}", n.port, user, users))
			w.copyFile("perennial.yaml", user+".yaml")
		}
	}
	run, line = w.run()
	w.readySays(line, ready)
	return w, run, line
}

// startAs runs the server with these NATS accounts, and one password for all users.
func (n *natsProcess) startAs(accounts string) {
	t := n.w.t
	t.Helper()
	n.w.write("nats.conf", fmt.Sprintf("listen: \"127.0.0.1:%d\"\njetstream {store_dir: %q}\n%s\n", n.port, filepath.Join(n.w.dir, "outer"), accounts), 0o600)
	n.cmd = natsServer(t, filepath.Join(n.w.dir, "nats.conf"))
	for _, user := range []string{"perennial", "prod", "sub", "sub2", "view", "ops", "other-ops"} {
		n.cmd.Env = append(n.cmd.Env, config.PasswordVariable(user)+"="+natsPassword)
	}
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	n.awaitListening()
}

func (w *world) has(name string) bool {
	_, err := os.Stat(filepath.Join(w.dir, name))
	return err == nil
}

func (w *world) copyFile(from, to string) {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, from))
	if err != nil {
		w.t.Fatal(err)
	}
	w.write(to, string(text), 0o600)
}

// login returns the flags with which the program's commands run as a user from another machine.
func (w *world) login(line daemon.ReadyLine, user string) []string {
	if w.has(user + ".creds") {
		return []string{"--config", filepath.Join(w.dir, user+".yaml")}
	}
	return []string{"--nats", fmt.Sprintf("nats://%s:%s@%s", user, natsPassword, line.NATS[strings.LastIndexAny(line.NATS, "/@")+1:])}
}

type role struct {
	*nats.Conn
	t  testing.TB
	js jetstream.JetStream
}

// dial connects to a server without users.
func dial(t testing.TB, url string) *role {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return &role{Conn: nc, t: t}
}

func (w *world) as(line daemon.ReadyLine, user string) *role {
	w.t.Helper()
	address := line.NATS[strings.LastIndexAny(line.NATS, "/@")+1:]
	login := nats.UserInfo(user, natsPassword)
	if creds := filepath.Join(w.dir, user+".creds"); w.has(user + ".creds") {
		login = nats.UserCredentials(creds)
	}
	nc, err := nats.Connect("nats://"+address, login, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		w.t.Fatal(err)
	}
	return &role{nc, w.t, js}
}

// No runner leads the account then.
func TestAStandbyMakesConsumersForSubscribers(t *testing.T) {
	t.Parallel()
	w, holder, line := withRoles(t, externalNATS)
	standby := startIn(t, w.dir, nil, "run", "--data", "data-2")
	standby.ready(&line)
	w.readySays(line, ready)
	holder.kill()
	sub := w.as(line, "sub")
	if _, err := sub.js.CreateOrUpdateConsumer(t.Context(), "PERENNIAL_EVENTS_main", jetstream.ConsumerConfig{Durable: "mine", AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
		t.Errorf("%v\n%s", err, standby.stderr)
	}
}

// cannot fails the test unless the request gets an error. The server reports a forbidden subject
// before it answers later messages.
func (r *role) cannot(subject, body string) {
	r.t.Helper()
	r.cannotSend(&nats.Msg{Subject: subject, Data: []byte(body)})
}

func (r *role) cannotSend(m *nats.Msg) {
	r.t.Helper()
	m.Reply = r.NewInbox()
	answers, err := r.SubscribeSync(m.Reply)
	if err == nil {
		err = errors.Join(r.PublishMsg(m), r.Flush())
	}
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = answers.Unsubscribe() }()
	if err := r.LastError(); err != nil && strings.Contains(err.Error(), fmt.Sprintf("%q", m.Subject)) {
		return
	}
	answer, err := answers.NextMsg(patience)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
	case err != nil:
		r.t.Errorf("%s is neither refused nor answered: %v", m.Subject, err)
	case answer.Header.Get("Nats-Service-Error-Code") == "" && !strings.Contains(string(answer.Data), `"error"`):
		r.t.Errorf("%s is answered: %.200s", m.Subject, answer.Data)
	}
}

// verb sends a request to main, and fails the test if main refuses it.
func (r *role) verb(verb, body string) string {
	r.t.Helper()
	answer, err := r.Request("perennial.svc.main."+verb, []byte(body), patience)
	if err != nil || answer.Header.Get("Nats-Service-Error-Code") != "" {
		r.t.Fatalf("%s: %v %v", verb, err, answer)
	}
	return string(answer.Data)
}

func onEach(t *testing.T, do func(t *testing.T, w *world, run *process, line daemon.ReadyLine)) {
	t.Helper()
	servers := []natsServers{embeddedNATS, externalNATS}
	if testrun.Check {
		servers = append(servers, jwtNATS)
	}
	for _, on := range servers {
		t.Run(string(on), func(t *testing.T) {
			t.Parallel()
			w, run, line := withRoles(t, on)
			do(t, w, run, line)
		})
	}
}

// The test uses plain NATS clients with their default inboxes.
func TestEachRoleDoesWhatItIsFor(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, w *world, _ *process, line daemon.ReadyLine) {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		prod, sub, view, ops := w.as(line, "prod"), w.as(line, "sub"), w.as(line, "view"), w.as(line, "ops")
		live, err := sub.SubscribeSync("perennial.events.main.>")
		if err := errors.Join(err, sub.Flush()); err != nil { // the order is on another connection
			t.Fatal(err)
		}
		if _, err := prod.js.Publish(ctx, "perennial.commands.main.order.create", []byte(`{"id":"buy","duration_days":30,"items":[{"offer_code":"off_us_1","quantity":1}]}`)); err != nil {
			t.Fatal(err)
		}
		await(t, "the producer sees the end", func() bool {
			answer, err := prod.Request("perennial.svc.main.status", []byte(`{"id":"buy"}`), patience)
			return err == nil && strings.Contains(string(answer.Data), `"delivered"`)
		})
		if m, err := live.NextMsg(patience); err != nil || !strings.HasPrefix(m.Subject, "perennial.events.main.") {
			t.Errorf("live: %v", err)
		}
		ordered, err := sub.js.OrderedConsumer(ctx, "PERENNIAL_EVENTS_main", jetstream.OrderedConsumerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if m, err := ordered.Next(jetstream.FetchMaxWait(patience)); err != nil || len(m.Data()) == 0 {
			t.Errorf("ordered: %v", err)
		}
		mine, err := sub.js.CreateOrUpdateConsumer(ctx, "PERENNIAL_EVENTS_main", jetstream.ConsumerConfig{Durable: "mine", AckPolicy: jetstream.AckExplicitPolicy})
		if err != nil {
			t.Fatal(err)
		}
		if m, err := mine.Next(jetstream.FetchMaxWait(patience)); err != nil || m.DoubleAck(ctx) != nil {
			t.Errorf("pull: %v", err)
		}
		if err := sub.js.DeleteConsumer(ctx, "PERENNIAL_EVENTS_main", "mine"); err != nil {
			t.Error(err)
		}
		for _, verb := range []string{"balance", "show", "sweeps"} {
			view.verb(verb, "")
		}
		if stream, err := view.js.Stream(ctx, "PERENNIAL_EVENTS_main"); err != nil {
			t.Error(err)
		} else if _, err := stream.GetMsg(ctx, 1); err != nil {
			t.Error(err)
		}
		ops.verb("pause", `{"reason":"to see"}`)
		ops.verb("resume", `{"by":"ann","reason":"seen"}`)
		if f := aFact[fact.AccountPaused](sub, "account.paused"); f.User != "ops" || !strings.Contains(f.Detail, "by ops: to see") {
			t.Errorf("%+v", f)
		}
		if f := aFact[fact.AccountResumed](sub, "account.resumed"); f.User != "ops" || !strings.Contains(f.Detail, "by ann (NATS user ops): seen") {
			t.Errorf("%+v", f)
		}
		ops.verb("sweep", `{"schedule":"keep","reason":"to see"}`)
		if f := aFact[fact.SweepPlanned](sub, "sweep.planned"); f.User != "ops" || f.By != "ops" || f.Reason != "to see" {
			t.Errorf("%+v", f)
		}
		ops.verb("record", `{"kind":"top-up","cents":5,"by":"ann","reason":"card"}`)
		if said := w.mustCLI("ledger", "entries", "-a", "main"); strings.Count(said, "ann (NATS user ops)  card") != 2 {
			t.Error(said)
		}
		w.commandsAs(line, "ops")
		w.refusedAs(line, "prod")
	})
}

// refusedAs runs commands that the producer's role forbids. Each command reports the refusal
// immediately instead of waiting for an answer.
func (w *world) refusedAs(line daemon.ReadyLine, user string) {
	w.t.Helper()
	for args, subject := range map[string]string{
		"account pause --by ann --reason r": "perennial.svc.main.pause", "operations list": "perennial.svc.main.list", "status": "perennial.svc.main.summary",
		"watch": "$JS.API.STREAM.INFO.PERENNIAL_EVENTS_main", "dead list": "$JS.API.STREAM.INFO.PERENNIAL_DEAD_main",
	} {
		_, errs, code := w.cli(slices.Concat(strings.Fields(args), w.login(line, user), []string{"-a", "main"})...)
		if code != cli.ExitFailed || !strings.Contains(errs, "no permission for "+subject) || strings.Contains(errs, "deadline") {
			w.t.Errorf("%s: exit %d\n%s", args, code, errs)
		}
	}
}

// A reason is required even if the server names the operator. `reconcile` needs none, because it
// only books what the provider shows.
func TestEveryChangeNeedsAReason(t *testing.T) {
	t.Parallel()
	w, _, line := withRoles(t, embeddedNATS)
	ops := w.as(line, "ops")
	for _, v := range verbs.All() {
		verb := v.Name
		if !v.Changes() || verb == "reconcile" {
			continue
		}
		without := map[string]string{
			"release": `{"id":"x","by":"ann"}`, "cancel": `{"id":"x","by":"ann"}`, "retry": `{"id":"x","by":"ann"}`, "resolve": `{"id":"x","charged":false,"by":"ann"}`,
			"pause": `{"reason":" "}`, "resume": `{"reason":" "}`, "sweep": `{"schedule":"keep"}`, "approve": `{"plan":"p","by":"ann"}`,
			"reveal": `{"proxy_id":"px_1","by":"ann"}`, "dead-requeue": `{"seq":1,"by":"ann"}`, "dead-drop": `{"seq":1,"by":"ann"}`,
			"schedule-pause": `{"schedule":"keep","by":"ann"}`, "schedule-resume": `{"schedule":"keep","by":"ann"}`,
			"retire": `{"proxy_ids":["px_1"],"by":"ann"}`, "record": `{"kind":"top-up","cents":1,"by":"ann","reason":""}`,
		}[verb]
		for _, body := range []string{"", "{}", "null", `{"by":"ann"}`, `{"reason":"","reason":"good"}`, without} {
			answer, err := ops.Request("perennial.svc.main."+verb, []byte(body), patience)
			if err != nil || answer.Header.Get("Nats-Service-Error-Code") == "" {
				t.Errorf("%s %s: %v %+v", verb, body, err, answer)
			}
			if said := answer.Header.Get("Nats-Service-Error"); body == without && verb != "resolve" && !strings.Contains(said, "reason") {
				t.Errorf("%s says %q", verb, said)
			}
		}
	}
	if said := w.mustCLI("ledger", "entries", "-o", "json", "-a", "main"); strings.Contains(said, "top-up") {
		t.Error(said)
	}
}

// aFact reads the first event of a type, as a client would.
func aFact[F any](r *role, eventType string) (f F) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	c, err := r.js.OrderedConsumer(ctx, "PERENNIAL_EVENTS_main", jetstream.OrderedConsumerConfig{FilterSubjects: []string{"perennial.events.main." + eventType}})
	if err != nil {
		r.t.Fatal(err)
	}
	m, err := c.Next(jetstream.FetchMaxWait(patience))
	if err != nil {
		r.t.Fatalf("%s: %v", eventType, err)
	}
	var event struct {
		Data F `json:"data"`
	}
	if err := json.Unmarshal(m.Data(), &event); err != nil {
		r.t.Fatal(err)
	}
	return event.Data
}

// commandsAs runs the program's commands as an operator from another machine.
func (w *world) commandsAs(line daemon.ReadyLine, user string) {
	w.t.Helper()
	for _, args := range [][]string{
		{"order", "--item", "off_us_1=1", "--id", "by-cli", "--wait"}, {"status"}, {"status", "by-cli"}, {"account", "show"}, {"dead", "list"},
		{"sweep", "list"}, {"ledger", "balance"}, {"review", "list"}, {"doctor"},
	} {
		w.mustCLI(slices.Concat(args, w.login(line, user), []string{"-a", "main"})...)
	}
}

// The commands connect as their own user, with the password that the run wrote.
func TestCommandsOnTheMachineOfTheRunNeedNoPassword(t *testing.T) {
	t.Parallel()
	w, run, _ := withRoles(t, embeddedNATS)
	for _, args := range [][]string{
		{"order", "--item", "off_us_1=1", "--id", "here", "--wait", "-a", "other"}, {"status", "here"}, {"wallet"},
		{"account", "pause", "--by", "ann", "--reason", "to see", "-a", "main"}, {"account", "resume", "--by", "ann", "--reason", "seen", "-a", "main"}, {"doctor"},
		{"ledger", "verify", "--against-events", "-a", "main"}, {"ledger", "verify", "--against-events", "-a", "other"}, {"dead", "list", "-a", "main"}, {"sweep", "plan", "keep", "-a", "main"},
	} {
		w.mustCLI(args...)
	}
	kept, err := os.Stat(filepath.Join(w.dir, "data", "run.json"))
	if err != nil || kept.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", kept, err)
	}
	if code := run.terminate(); code != cli.ExitDone || strings.Contains(run.stderr.String(), "password") {
		t.Errorf("exit %d\n%s", code, run.stderr)
	}
}

// The file that the link points to stays unchanged.
func TestTheFileOfARunReplacesALink(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.write("precious", "mine", 0o600)
	if err := os.Mkdir(filepath.Join(w.dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(w.dir, "precious"), filepath.Join(w.dir, "data", "run.json")); err != nil {
		t.Fatal(err)
	}
	w.run()
	if text, err := os.ReadFile(filepath.Join(w.dir, "precious")); err != nil || string(text) != "mine" {
		t.Errorf("%q %v", text, err)
	}
	w.mustCLI("status")
}

// A permission violation in the server's log counts as an alarm.
func TestAProducersOrderAsksNothingForbidden(t *testing.T) {
	t.Parallel()
	w, run, line := withRoles(t, embeddedNATS)
	args := append(w.login(line, "prod"), "--account", "main", "order", "off_us_1=1", "--id", "by-the-producer")
	if _, errs, code := w.cli(args...); code != cli.ExitDone {
		t.Fatalf("exit %d: %s", code, errs)
	}
	w.stopped(run)
	if said := run.stderr.String(); strings.Contains(said, "Violation") {
		t.Errorf("the order asked what a producer may not:\n%s", said)
	}
}
