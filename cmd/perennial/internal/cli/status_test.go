package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perennial/cmd/perennial/internal/daemon"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/upstream"
)

// largeStatus returns a command with this many operations, each with this many proxies, that left
// out this many proxies.
func largeStatus(operations, proxies, leftOut int) (s inspect.CommandStatus) {
	s = inspect.CommandStatus{CommandID: "keep", State: "partial"}
	for i := range leftOut {
		s.LeftOut = append(s.LeftOut, inspect.LeftOut{ProxyID: fmt.Sprintf("out_%d", i), Reason: "claimed"})
	}
	for i := range operations {
		o := inspect.OperationStatus{OperationID: fmt.Sprintf("keep/%04d", i), State: fact.StateCompleted, Currency: "USD"}
		if i == operations-1 {
			o.State = fact.StateReview
		}
		for n := range proxies {
			o.Lines = append(o.Lines, tables.RenewalLine{ProxyID: fmt.Sprintf("px_%d_%d", i, n), State: "succeeded", ChargedCents: 300})
		}
		s.Operations = append(s.Operations, o)
	}
	return s
}

func shownStatus(t *testing.T, output string, s inspect.CommandStatus) string {
	t.Helper()
	var out bytes.Buffer
	if err := (statusCommands{&app{stdout: &out, output: output}}).printStatus("", s); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestStatusOfAThousandOperationsIsBounded(t *testing.T) {
	t.Parallel()
	s := largeStatus(1000, 5, 100_000)
	text := shownStatus(t, "table", s)
	for what, want := range map[string]int{"skipped out_": statusShown, "\nkeep/": statusShown, "  px_": statusShown} {
		if got := strings.Count(text, what); got != want {
			t.Errorf("%q stands %d times, want %d", what, got, want)
		}
	}
	for _, want := range []string{
		"skipped 99980 more: -o json has all\n", "\nand 80 more proxies of these and 980 more operations (980 completed): -o json has all\n",
		"\nkeep/0999  review\n", // listed first, because it needs review
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text[len(text)-400:])
		}
	}
	var whole inspect.CommandStatus
	if err := json.Unmarshal([]byte(shownStatus(t, "json", s)), &whole); err != nil || len(whole.Operations) != 1000 || len(whole.LeftOut) != 100_000 {
		t.Errorf("JSON has %d operations and %d left out: %v", len(whole.Operations), len(whole.LeftOut), err)
	}
}

func TestStatusThatFitsIsShownWhole(t *testing.T) {
	t.Parallel()
	text := shownStatus(t, "table", largeStatus(statusShown, 1, statusShown))
	if strings.Contains(text, "more") || strings.Count(text, "  px_") != statusShown {
		t.Error(text[len(text)-400:])
	}
	if text := shownStatus(t, "table", largeStatus(1, statusShown+1, 0)); !strings.HasSuffix(text, "\nand 1 more proxies of these: -o json has all\n") {
		t.Error(text[len(text)-200:])
	}
}

// Proxies with unreadable expiries do not count as expiring soon, although they may expire.
func TestExpiriesThatCannotBeReadAreSaid(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l, err := ledger.Open(t.Context(), ledger.Config{Path: filepath.Join(t.TempDir(), "main.ledger.db"), Clock: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	err = l.Write(t.Context(), func(tx *ledger.Tx) error {
		return errors.Join(tx.Append(fact.LedgerOpened{AccountID: "acc_1", Environment: "sandbox", BaseURL: "http://127.0.0.1:1", Currency: "USD", OpeningCents: 500, Epoch: "e"}),
			tx.Observe(1, tables.Proxy{ProxyID: "px_1", ExpiresAt: new(now.Add(time.Hour)), SeenAt: now}),
			tx.ObserveUnreadable(1, "px_2", "expires_at is not text"), tx.ObserveUnreadable(1, "px_3", "expires_at is not text"),
			tx.KeepListing(tables.Listing{Pass: 1, Began: now, Finished: now}))
	})
	if err != nil {
		t.Fatal(err)
	}
	v, err := daemon.Summarize(t.Context(), l, "main", now)
	if err != nil {
		t.Fatal(err)
	}
	if text := expiringText(v.Expiring, new(int64(1))); !strings.HasSuffix(text, "of 1; 2 cannot be read (perennial schedules plan SCHEDULE)") {
		t.Error(text)
	}
}

// The test covers each refusal that an operator can act on.
func TestARefusedOperationSaysWhatToDo(t *testing.T) {
	for code, want := range map[string]string{
		fact.CodeCeiling: "a larger --max", string(upstream.CodeOfferNotFound): "perennial offers list", string(upstream.CodeInsufficientWallet): "perennial retry a/1",
		string(upstream.CodeProxyNotFound): "perennial proxies list --live", string(upstream.CodeValidationError): "under another id",
	} {
		o := inspect.OperationStatus{OperationID: "a/1", State: fact.StateRejected, Code: code}
		if text := nextStep(o); !strings.Contains(text, want) || !strings.HasPrefix(text, "nothing was charged; ") {
			t.Errorf("%s: %q", code, text)
		}
	}
}
