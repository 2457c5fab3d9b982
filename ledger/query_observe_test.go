package ledger

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

// The result equals that of seeOther alone, in the tables of proxies and of moves.
func TestAnObservationWritesWhatDiffers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	some := func(values ...string) string { return values[random.IntN(len(values))] }
	instant := func() *time.Time {
		if n := random.IntN(4); n > 0 {
			return at(time.Duration(n) * 40 * time.Hour)
		}
		return nil
	}
	b, all := newBook(t), bookAt(t, filepath.Join(t.TempDir(), "all.ledger.db"), func() time.Time { return noon })
	for n := range 6000 {
		p := tables.Proxy{
			ProxyID: some("px_1", "px_2", "px_3", "px_4"), Status: "active", IPType: some("isp", "isp", "isp", "dc"), Protocol: some("http", "http", "http", "socks5"),
			CountryCode: some("US", "US", "US", "DE"), Region: some("r", "r", "r", "s"), LineName: some("l", "l", "l", "m"), ExpiresAt: instant(),
			SeenAt: noon.Add(time.Duration(n) * time.Minute), Unreadable: some("", "", "", "no text"),
		}
		if random.IntN(4) == 0 {
			p.StartsAt, p.Status = instant(), "stopped"
		}
		if random.IntN(4) == 0 {
			p.UnlistedAt, p.ExpectedExpiresAt = instant(), instant()
		}
		pass, again := int64(random.IntN(4))*int64(n), random.IntN(3)
		was := random.IntN(20)
		write := func(b *book, observe func(tx *Tx) error) {
			check(t, b.Write(t.Context(), func(tx *Tx) error {
				switch was {
				case 0:
					check(t, tx.Stale(p.ProxyID))
				case 1:
					check(t, tx.exec(`UPDATE proxies SET gone = 1 WHERE proxy_id = ?`, p.ProxyID))
				case 2:
					check(t, tx.exec(`UPDATE proxies SET unlisted_at = ? WHERE proxy_id = ?`, sqlite.Micros(noon), p.ProxyID))
				case 3:
					check(t, tx.ObserveUnreadable(pass, p.ProxyID, "bad"))
				}
				for range again + 1 {
					check(t, observe(tx))
				}
				return nil
			}))
		}
		write(b, func(tx *Tx) error { return tx.Observe(pass, p) })
		write(all, func(tx *Tx) error {
			return tx.exec(seeOther, p.ProxyID, p.Status, p.IPType, p.Protocol, p.CountryCode, p.Region, p.LineName,
				sqlite.NullInstant(p.StartsAt), sqlite.NullInstant(p.ExpiresAt), sqlite.Micros(p.SeenAt), pass, sqlite.NullInstant(p.UnlistedAt), p.Unreadable, sqlite.NullInstant(p.ExpectedExpiresAt))
		})
		if n%10 == 0 {
			for _, table := range []string{"proxies", "moves"} {
				if got, want := wholeTable(t, b, table), wholeTable(t, all, table); got != want {
					t.Fatalf("observation %d: %s holds\n%s\nand should hold\n%s", n, table, got, want)
				}
			}
		}
	}
}

func wholeTable(t *testing.T, b *book, table string) string {
	t.Helper()
	columns, err := sqlite.Columns(t.Context(), b.read, table)
	check(t, err)
	lines, err := sqlite.Collect(b.query(t.Context(), `SELECT concat_ws(' ', coalesce(`+strings.Join(columns, `, 'null'), coalesce(`)+`, 'null')) FROM `+table), sqlite.Value[string])
	check(t, err)
	return strings.Join(lines, "\n")
}

// The revision increases if and only if an answer about proxies may change.
func TestARevisionRisesWithTheFleetAndTheFacts(t *testing.T) {
	b := newBook(t)
	seen := noon
	observe := func(p tables.Proxy) func(tx *Tx) error {
		seen = seen.Add(time.Minute)
		p.SeenAt = seen
		return func(tx *Tx) error { return tx.Observe(7, p) }
	}
	one := tables.Proxy{ProxyID: "px_1", ExpiresAt: at(time.Hour)}
	moved := tables.Proxy{ProxyID: "px_1", ExpiresAt: at(2 * time.Hour)}
	before, known := b.Revision()
	if !known {
		t.Fatal("the revision of a ledger that is written is unknown")
	}
	for i, x := range []struct {
		what  string
		write func(tx *Tx) error
		rises bool
	}{
		{"a new proxy", observe(one), true},
		{"the same", observe(one), false},
		{"a listing's place", func(tx *Tx) error { return tx.KeepListing(tables.Listing{Pass: 8}) }, false},
		{"another expiry", observe(moved), true},
		{"a complete listing", func(tx *Tx) error { return tx.FinishPass(7, noon) }, false},
		{"a listing without it", func(tx *Tx) error { return tx.FinishPass(9, noon.AddDate(1, 0, 0)) }, true},
		{"it is out of date", func(tx *Tx) error { return tx.Stale("px_1") }, true},
		{"it was read", observe(moved), true},
		{"its entry is unreadable", func(tx *Tx) error { return tx.ObserveUnreadable(9, "px_1", "bad") }, true},
		{"a fact", func(tx *Tx) error { return tx.Append(fact.ProxyRetired{ProxyID: "px_1", By: "ada"}) }, true},
		{"a copy without it", func(tx *Tx) error { return tx.FinishCopy(10, noon.AddDate(1, 0, 0)) }, true},
	} {
		check(t, b.Write(t.Context(), x.write))
		after, _ := b.Revision()
		if (after > before) != x.rises {
			t.Errorf("%d, %s: from %d to %d", i, x.what, before, after)
		}
		before = after
	}
}
