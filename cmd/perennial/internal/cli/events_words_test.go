package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"perennial/ledger/chain"
	"perennial/ledger/tables"
	"perennial/queue/events"
)

func TestEventsForPeopleShowMoneyInOneForm(t *testing.T) {
	t.Parallel()
	event, err := json.Marshal(chain.CloudEvent{Type: "renewal.completed", Data: []byte(`{"charged_cents":300,"refunded_cents":100}`)})
	if err != nil {
		t.Fatal(err)
	}
	line := eventLine(events.Event{Seq: 1, Type: "renewal.completed", Data: event}, "USD")
	if !strings.HasSuffix(line, "charged 3.00 USD  refunded 1.00 USD") {
		t.Error(line)
	}
}

func TestEventsForPeopleSayWhoAskedForThem(t *testing.T) {
	t.Parallel()
	event, err := json.Marshal(chain.CloudEvent{Type: "proxy.retired", Data: []byte(`{"proxy_id":"px_1","by":"ann","reason":"moving","user":"ops"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if line := eventLine(events.Event{Seq: 1, Type: "proxy.retired", Data: event}, "USD"); !strings.HasSuffix(line, "  px_1  by ann (NATS user ops)  moving") {
		t.Error(line)
	}
	paused, err := json.Marshal(chain.CloudEvent{Type: "account.paused", Data: []byte(`{"detail":"by ann (NATS user ops): to look","user":"ops"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if line := eventLine(events.Event{Seq: 2, Type: "account.paused", Data: paused}, "USD"); !strings.HasSuffix(line, "  by ann (NATS user ops): to look") {
		t.Error(line)
	}
}

func TestAnUnknownAmountIsNotShownAsNone(t *testing.T) {
	balance := unbookedText(tables.Unbooked{Operations: 2, Unknown: 2}, "USD")
	if !strings.Contains(balance, "an unknown amount") || strings.Contains(balance, "0.00") {
		t.Error(balance)
	}
}
