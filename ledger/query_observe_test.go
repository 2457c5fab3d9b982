package ledger

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The tables of proxies and of moves become what seeOther alone makes of them.
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
		p := Proxy{
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
					check(t, tx.exec(`UPDATE proxies SET unlisted_at = ? WHERE proxy_id = ?`, micros(noon), p.ProxyID))
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
				nullInstant(p.StartsAt), nullInstant(p.ExpiresAt), micros(p.SeenAt), pass, nullInstant(p.UnlistedAt), p.Unreadable, nullInstant(p.ExpectedExpiresAt))
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
	columns, err := columnsOf(t.Context(), b.read, table)
	check(t, err)
	lines, err := collect(b.query(t.Context(), `SELECT concat_ws(' ', coalesce(`+strings.Join(columns, `, 'null'), coalesce(`)+`, 'null')) FROM `+table), scanText)
	check(t, err)
	return strings.Join(lines, "\n")
}
