package ledger

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
	"perennial/ledger/tables"
)

// sees stores a read in which the provider shows px_1 with this expiry.
func (b *book) sees(expires, seen time.Duration) {
	b.t.Helper()
	check(b.t, b.Write(b.t.Context(), func(tx *Tx) error {
		return tx.Observe(0, tables.Proxy{ProxyID: "px_1", Status: "active", ExpiresAt: at(expires), SeenAt: *at(seen)})
	}))
}

// unexplained returns by how many days px_1 moved without a renewal in this ledger.
func (b *book) unexplained() (days int) {
	b.t.Helper()
	all, err := b.Fleet.MovedOutside(b.t.Context())
	check(b.t, err)
	for _, m := range all {
		days += int(m.By.Hours()) / 24
	}
	return days
}

const month = 30 * 24 * time.Hour

// endsOfAMove lists, for each end of a renewal, whether it explains an expiry that moved by a
// month.
var endsOfAMove = map[string]struct {
	facts  []fact.Fact
	hidden bool
}{
	"nothing was sent":           {nil, false},
	"accepted and not sent":      {[]fact.Fact{accepted(fact.KindRenewal, "k/1", "px_1")}, false},
	"in progress":                {[]fact.Fact{accepted(fact.KindRenewal, "k/1", "px_1"), sending("k/1", 1)}, true},
	"in review":                  {[]fact.Fact{accepted(fact.KindRenewal, "k/1", "px_1"), sending("k/1", 1), fact.OperationReview{Ref: ref("k/1"), Reason: "x"}}, true},
	"succeeded":                  {[]fact.Fact{accepted(fact.KindRenewal, "k/1", "px_1"), sending("k/1", 1), settled("k/1", "completed", line("px_1", "succeeded", 300, 0))}, true},
	"failed":                     {[]fact.Fact{accepted(fact.KindRenewal, "k/1", "px_1"), sending("k/1", 1), settled("k/1", "failed", line("px_1", "failed", 0, 0))}, false},
	"unresolved":                 {[]fact.Fact{accepted(fact.KindRenewal, "k/1", "px_1"), sending("k/1", 1), settled("k/1", "partial", line("px_1", "unresolved", 300, 0))}, true},
	"skipped":                    {[]fact.Fact{accepted(fact.KindRenewal, "k/1", "px_1"), fact.ProxySkipped{Ref: ref("k/1"), ProxyID: "px_1", Reason: "x"}}, false},
	"refused":                    {[]fact.Fact{accepted(fact.KindRenewal, "k/1", "px_1"), sending("k/1", 1), fact.CommandRejected{Ref: ref("k/1"), Code: "x"}}, false},
	"answered as charged":        {[]fact.Fact{accepted(fact.KindRenewal, "k/1", "px_1"), sending("k/1", 1), fact.OperationReview{Ref: ref("k/1"), Reason: "x"}, resolved("k/1", "", "charged", 300)}, true},
	"answered as not charged":    {[]fact.Fact{accepted(fact.KindRenewal, "k/1", "px_1"), sending("k/1", 1), fact.OperationReview{Ref: ref("k/1"), Reason: "x"}, resolved("k/1", "", "not_charged", 0)}, false},
	"a line that is not charged": {[]fact.Fact{accepted(fact.KindRenewal, "k/1", "px_1"), sending("k/1", 1), settled("k/1", "partial", line("px_1", "unresolved", 300, 0)), resolved("k/1", "px_1", "not_charged", 0)}, false},
}

func TestTrap24OnlyALineThatMayHavePaidExplainsAMove(t *testing.T) {
	t.Parallel()
	for name, test := range endsOfAMove {
		t.Run(name, func(t *testing.T) {
			for seen := range len(test.facts) + 1 { // whenever the move is seen
				b := newBook(t)
				b.add(opened(5000))
				b.sees(time.Hour, -time.Minute)
				b.add(test.facts[:seen]...)
				if seen > 0 { // as a runner marks renewed proxies
					check(t, b.Write(t.Context(), func(tx *Tx) error { return tx.Stale("px_1") }))
				}
				b.sees(time.Hour+month, time.Minute)
				b.add(test.facts[seen:]...)
				if got := b.unexplained(); got != map[bool]int{true: 0, false: 30}[test.hidden] {
					t.Errorf("seen behind %d of %d facts: %d days are unexplained", seen, len(test.facts), got)
				}
			}
		})
	}
}

// The expiry moves elsewhere first, and then a renewal here pays for the new expiry.
func TestALaterRenewalExplainsItsOwnMoveOnly(t *testing.T) {
	for _, known := range []bool{true, false} {
		b := newBook(t)
		b.add(opened(5000))
		b.sees(time.Hour, -time.Minute)
		b.sees(time.Hour+month, 0)
		send := sending("k/1", 1)
		send.SentAt = noon.Add(10 * time.Minute)
		if known {
			send.SentAt = noon.Add(time.Second)
			send.Observed = map[string]time.Time{"px_1": *at(time.Hour + month)}
		}
		b.add(accepted(fact.KindRenewal, "k/1", "px_1"), send)
		b.sees(time.Hour+2*month, 11*time.Minute)
		b.add(settled("k/1", "completed", line("px_1", "succeeded", 300, 0)))
		if got := b.unexplained(); got != 30 {
			t.Errorf("%d days are unexplained", got)
		}
		check(t, b.Write(t.Context(), func(tx *Tx) error { return tx.ForgetMoved() }))
		if got := b.unexplained(); got != 0 {
			t.Errorf("%d days are unexplained behind a record", got)
		}
	}
}

// A record explains moves that were reported, but not those that a pending renewal may
// explain.
func TestARecordLeavesWhatARenewalUnderWayMayExplain(t *testing.T) {
	b := newBook(t)
	b.add(opened(5000))
	b.sees(time.Hour, -time.Minute)
	b.add(accepted(fact.KindRenewal, "k/1", "px_1"), sending("k/1", 1), fact.OperationReview{Ref: ref("k/1"), Reason: "x"})
	b.sees(time.Hour+month, time.Minute)
	check(t, b.Write(t.Context(), func(tx *Tx) error { return tx.ForgetMoved() }))
	b.add(resolved("k/1", "", "not_charged", 0))
	if got := b.unexplained(); got != 30 {
		t.Errorf("%d days are unexplained", got)
	}
}

// Archiving creates a new file, which keeps the noticed moves.
func TestAnArchivedLedgerStillNamesWhatMoved(t *testing.T) {
	b := oldBook(t, filepath.Join(t.TempDir(), "main.ledger.db"), append(history(), over()...)...)
	b.sees(time.Hour, -time.Minute)
	b.sees(time.Hour+month, time.Minute)
	check(t, b.Close())
	_, err := archiveOf(t, b.path, 60).Run(t.Context())
	check(t, err)
	if got := openBook(t, b.path).unexplained(); got != 30 {
		t.Errorf("%d days are unexplained", got)
	}
}

// A reconciliation without a runner may read a ledger of an older version before it is
// migrated.
func TestALedgerThatIsNotMigratedNamesNoMoves(t *testing.T) {
	for _, version := range []int64{5, 8} {
		l, err := Open(t.Context(), Config{Path: atVersion(t, version, historyOf(version)...), Clock: ticking(), ReadOnly: true})
		check(t, err)
		if all, err := l.Fleet.MovedOutside(t.Context()); err != nil || len(all) > 0 {
			t.Errorf("version %d: %v %v", version, all, err)
		}
		check(t, l.Close())
	}
}

// Moves noticed before the migration are named after it.
func TestWhatHadMovedBeforeTheMigrationIsStillNamed(t *testing.T) {
	path := atVersion(t, 8, historyOf(8)...)
	tamper(t, path, func(conn *sql.Conn) error {
		_, err := conn.ExecContext(t.Context(), `INSERT INTO moved (proxy_id, before, now, seen_at) VALUES ('px_1', ?, ?, ?)`,
			sqlite.Micros(noon), sqlite.Micros(noon.Add(month)), sqlite.Micros(noon))
		return err
	})
	if got := openBook(t, path).unexplained(); got != 30 {
		t.Errorf("%d days are unexplained", got)
	}
}
