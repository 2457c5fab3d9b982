package daemon

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/sirupsen/logrus"

	"perennial/queue"
	"perennial/queue/embedded"
	"perennial/queue/roles"
)

// One user has the maximum number of waiting inboxes. Another user's inbox still gets a place and
// its answer, and a command that has already ended needs no place. A place is freed when its
// inbox's subscription ends. The log has one line about the limit.
func TestOneUsersInboxesLeaveRoomForAnothers(t *testing.T) {
	t.Parallel()
	a, said, log := waitingAccount(t), &strings.Builder{}, logrus.New()
	log.SetOutput(said)
	a.log = log.WithField("account", "main")
	grants := []roles.Grant{{Role: queue.RoleProducer, Accounts: []string{"main"}}}
	server, err := embedded.Start(embedded.Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir(), Log: log,
		Users: []roles.User{{Name: "greedy", Password: "pw", Grants: grants}, {Name: "calm", Password: "pw", Grants: grants}}})
	must(t, err)
	t.Cleanup(server.Shutdown)
	q, err := queue.Connect(queue.ConnectConfig{Embedded: server, Log: log})
	must(t, err)
	t.Cleanup(q.Close)
	a.host = &Host{Embedded: server, Queue: q}
	listen := func(user, inbox string) *nats.Subscription {
		nc, err := nats.Connect(server.URL(), nats.UserInfo(user, "pw"))
		must(t, err)
		t.Cleanup(nc.Close)
		sub, err := nc.SubscribeSync(inbox)
		must(t, err)
		must(t, nc.Flush())
		return sub
	}
	answered := func(sub *nats.Subscription) {
		t.Helper()
		if _, err := sub.NextMsg(2 * time.Minute); err != nil {
			t.Errorf("%s: %v", sub.Subject, err)
		}
	}
	const commands = 30
	for n := range commands {
		a.append(t, acceptedAs(fmt.Sprint("waits-", n)))
	}
	a.append(t, acceptedAs("over"), endOf("over"))

	greedy, calm := listen("greedy", "_INBOX.greedy.>"), listen("calm", "_INBOX.calm")
	for n := range 2 * maxInboxes {
		inboxes{a}.answerEnd(t.Context(), fmt.Sprint("_INBOX.greedy.", n), fmt.Sprint("waits-", n%commands))
	}
	inboxes{a}.answerEnd(t.Context(), "_INBOX.calm", "waits-0")
	inboxes{a}.answerEnd(t.Context(), "_INBOX.greedy.over", "over")
	answered(greedy)
	must(t, greedy.Unsubscribe())
	for len(server.Listeners("_INBOX.greedy.0")) > 0 {
		runtime.Gosched()
	}
	a.waitingInboxes.mu.Lock()
	held := len(a.waitingInboxes.places)
	a.waitingInboxes.swept = time.Time{}
	a.waitingInboxes.mu.Unlock()
	later := listen("greedy", "_INBOX.later")
	inboxes{a}.answerEnd(t.Context(), "_INBOX.later", "waits-0")
	a.append(t, endOf("waits-0"))
	answered(calm)
	answered(later)
	if lines := strings.Count(said.String(), "are not answered"); held != maxInboxesOfUser+1 || lines != 1 {
		t.Errorf("%d places were held, and %d lines say so", held, lines)
	}
}

// An external server does not tell the user of a request. The limit then counts inboxes with the
// same prefix, which a client chooses for all its inboxes.
func TestOneClientsInboxesLeaveRoomOnAnOuterServer(t *testing.T) {
	t.Parallel()
	a := &account{host: &Host{}}
	quiet := logrus.New()
	quiet.SetOutput(&strings.Builder{})
	take := func(inbox string, n int) bool {
		return a.waitingInboxes.take(answerPlace{inbox, fmt.Sprint(n % 30)}, &inboxWaiter{end: func() {}}, inboxes{a}.listeners, quiet.WithField("account", "main"))
	}
	for name, next := range map[string]func(n int) string{
		"drawn": func(int) string { return nats.NewInbox() }, "of a user": func(n int) string { return fmt.Sprint("_INBOX.ann.", n) },
	} {
		had := 0
		for n := range 2 * maxInboxes {
			if take(next(n), n) {
				had++
			}
		}
		if had != maxInboxesOfUser {
			t.Errorf("%s: %d places", name, had)
		}
	}
	if !take("_INBOX.calm", 0) {
		t.Error("another client has no place")
	}
}
