package caller

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"
)

// The name counts only with a reply subject of the server and a single header.
func TestANameIsOneThatTheServerProves(t *testing.T) {
	const proof, account, jwt = "_R_.abc", `{"acc":"PERENNIAL_USER_all","user":"root"}`, `{"acc":"AKEY","name_tag":"ops"}`
	for _, c := range []struct {
		reply   string
		headers []string
		want    string
	}{
		{proof, []string{account}, "all"},
		{proof, []string{jwt}, "ops"},
		{"_INBOX.abc", []string{account}, ""},
		{"", []string{account}, ""},
		{proof, []string{account, jwt}, ""},
		{proof, []string{"all"}, ""},
		{proof, nil, ""},
	} {
		if got := Of(nats.Header{requestInfo: c.headers}, c.reply); got != c.want {
			t.Errorf("%q with %q: %q, want %q", c.reply, c.headers, got, c.want)
		}
	}
}

func TestAnAnswerGoesToNoSubjectOfTheRunner(t *testing.T) {
	for reply, may := range map[string]bool{"_INBOX.a": true, "_R_.a": true, "": false, "$JS.API.INFO": false, "perennial.svc.main.pause": false} {
		if MayAnswer(reply) != may {
			t.Errorf("%q: %t", reply, !may)
		}
	}
}

func TestAUserHasItsShareOfARoom(t *testing.T) {
	room := NewRoom(4, 2)
	first, second := room.Admit("one"), room.Admit("one")
	if first == nil || second == nil || room.Admit("one") != nil || room.Admit("two") == nil {
		t.Error("a user has another share than its own")
	}
	if !room.Work(t.Context(), first, func() {}) || room.Admit("one") == nil {
		t.Error("what is done keeps its place")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for range 100 {
		x := room.Admit("three")
		if room.Work(ended, x, func() {}) {
			t.Fatal("a request is handled after the service has stopped")
		}
	}
}
