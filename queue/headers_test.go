package queue

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// A command that names another subject must not make the runner publish there.
func TestACommandIsAnsweredOnInboxesOnly(t *testing.T) {
	for to, want := range map[string]bool{
		nats.NewInbox():                         true,
		"_INBOX.a.b.c":                          true,
		"":                                      false,
		"_INBOX":                                false,
		"_INBOX.":                               false,
		"_INBOX.>":                              false,
		"_INBOX.*":                              false,
		"_INBOX.a..b":                           false,
		"_INBOX.a b":                            false,
		"_INBOX.é":                              false,
		"_INBOXES.a":                            false,
		"$JS.API.STREAM":                        false,
		"perennial.commands.main.order.create":  false,
		"perennial.events.main.order.delivered": false,
		"_INBOX." + strings.Repeat("a", MaxInbox): false,
		"x._INBOX.a":               false,
		"perennial.svc.main.pause": false,
		"_R_.a":                    false,
		"perennial.replies.other._INBOX.somewhere": false,
	} {
		if got := ReplyTo(nats.Header{HeaderReplyTo: {to}}); (got != "") != want || want && got != to {
			t.Errorf("%q: answered on %q", to, got)
		}
	}
}

func TestAHeaderIsReadInAnyCase(t *testing.T) {
	for _, name := range []string{"Perennial-Reply-To", "perennial-reply-to", "PERENNIAL-REPLY-TO"} {
		if got := ReplyTo(nats.Header{name: {"_INBOX.a"}}); got != "_INBOX.a" {
			t.Errorf("%s: %q", name, got)
		}
	}
}
