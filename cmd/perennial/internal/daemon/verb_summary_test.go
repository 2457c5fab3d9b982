package daemon

import (
	"path/filepath"
	"testing"
	"time"

	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// Every page requests this summary, so that it reads neither expiries nor prices. It counts the
// same needs.
func TestASummaryOfTheNeedsAloneIsQuick(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	l, err := ledger.Open(t.Context(), ledger.Config{Path: filepath.Join(t.TempDir(), "main.ledger.db"), Clock: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	err = l.Write(t.Context(), func(tx *ledger.Tx) error {
		if err := tx.KeepListing(tables.Listing{Pass: 1, Finished: now}); err != nil {
			return err
		}
		return tx.Append(fact.LedgerOpened{AccountID: "acc", Environment: "sandbox", BaseURL: "http://127.0.0.1", Currency: "USD", OpeningCents: 500_000, Epoch: "e1"},
			fact.AccountPaused{Scope: "account", Cause: "person", Detail: "by ada: x"})
	})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := Summarize(t.Context(), l, "main", now)
	if err != nil {
		t.Fatal(err)
	}
	needs, err := summarizeNeeds(t.Context(), l, "main", now)
	if err != nil {
		t.Fatal(err)
	}
	if whole.Expiring == nil || needs.Expiring != nil || needs.Runway != nil {
		t.Errorf("expiring %v, with the needs alone %v and runway %v", whole.Expiring, needs.Expiring, needs.Runway)
	}
	if needs.Needs.Paused != 1 || needs.Needs.Total != whole.Needs.Total || needs.Books.WalletCents != 500_000 {
		t.Errorf("%+v, not %+v", needs, whole)
	}
}
