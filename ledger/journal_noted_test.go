package ledger

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
)

func (b *book) published() Published {
	b.t.Helper()
	p, err := b.Published(b.t.Context())
	check(b.t, err)
	return p
}

func TestHowFarTheJournalWasPublishedOutlivesTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "main.ledger.db")
	now := noon
	open := func() *book {
		l, err := Open(t.Context(), Config{Path: path, Clock: func() time.Time { return now }})
		check(t, err)
		return &book{Ledger: l, t: t, path: path}
	}
	b := open()
	b.add(history()...)
	if p := b.published(); p.Seq != 0 || p.FirmSeq != 0 {
		t.Fatalf("%+v", p)
	}
	note := func(seq, firm int64) {
		t.Helper()
		check(t, b.NotePublished(t.Context(), seq, false))
		row, err := b.Row(t.Context(), seq)
		check(t, err)
		if p := b.published(); p.Head != (chain.Head{Seq: seq, Hash: row.Hash}) || p.FirmSeq != firm {
			t.Fatalf("%+v, want %d and %d", p, seq, firm)
		}
	}
	note(3, 0)
	now = now.Add(9 * time.Minute)
	note(5, 0) // row 3 may still be lost in a power cut
	now = now.Add(time.Minute)
	note(7, 3)
	now = now.Add(firmAfter)
	note(8, 7)
	check(t, b.NotePublished(t.Context(), 2, false))
	if p := b.published(); p.Seq != 8 {
		t.Errorf("the note went back to %d", p.Seq)
	}
	if err := b.NotePublished(t.Context(), 9999, false); !errors.Is(err, ErrNotFound) {
		t.Errorf("a row that is not there: %v", err)
	}
	check(t, b.Close())
	b = open()
	defer func() { _ = b.Close() }()
	if p := b.published(); p.Seq != 8 || p.FirmSeq != 7 {
		t.Errorf("after a restart: %+v", p)
	}
	if _, err := b.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestPublishedNotesGoIntoBackupsAndArchives(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "main.ledger.db")
	b := oldBook(t, path, append(history(), over()...)...)
	seq := b.balance().Head.Seq - 1
	check(t, b.NotePublished(t.Context(), seq, false))
	copied := filepath.Join(t.TempDir(), "copy.db")
	_, err := b.Backup(t.Context(), copied, false)
	check(t, err)
	check(t, b.Close())
	if p := openBook(t, copied).published(); p.Seq != seq {
		t.Errorf("the backup knows of %d", p.Seq)
	}
	out, err := archiveOf(t, path, 20).Run(t.Context())
	check(t, err)
	if out.File == "" {
		t.Fatalf("nothing was archived: %+v", out)
	}
	if p := openBook(t, path).published(); p.Seq != seq {
		t.Errorf("the archived ledger knows of %d", p.Seq)
	}
}

func TestARewrittenLedgerContradictsWhatItNotedAsPublished(t *testing.T) {
	for name, statements := range map[string]string{
		"rewritten": `UPDATE published SET hash = replace(hash, substr(hash, 1, 1), 'x')`,
		"cut off":   `UPDATE published SET seq = seq + 1000`,
	} {
		b := newBook(t)
		b.add(history()...)
		check(t, b.NotePublished(t.Context(), 4, false))
		check(t, b.Close())
		tamper(t, b.path, func(conn *sql.Conn) error {
			_, err := conn.ExecContext(t.Context(), statements)
			return err
		})
		_, err := openBook(t, b.path).Verify(t.Context())
		var broken *chain.BrokenError
		if !errors.As(err, &broken) || broken.Check != "published" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHeadsThatWereKeptElsewhereTellARewrittenHistory(t *testing.T) {
	b := newBook(t)
	b.add(opened(1000), fact.LedgerRecorded{Movement: "external", AmountCents: 300, By: "ada", Reason: "shop"})
	kept := b.balance().Head
	b.add(fact.LedgerRecorded{Movement: "top-up", AmountCents: 5, By: "ada", Reason: "card"})
	check(t, b.Expect(t.Context(), []chain.Head{kept, b.balance().Head}))
	forged := newBook(t)
	forged.add(opened(1000), fact.LedgerRecorded{Movement: "external", AmountCents: 100, By: "ada", Reason: "shop"})
	for name, heads := range map[string][]chain.Head{
		"rewritten": {kept}, "cut off": {b.balance().Head},
	} {
		var broken *chain.BrokenError
		if err := forged.Expect(t.Context(), heads); !errors.As(err, &broken) || broken.Check != "head" || broken.Seq != heads[0].Seq {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAnArchivedHeadIsExpectedToo(t *testing.T) {
	t.Parallel()
	path, archives := archivedTwice(t)
	l, err := Open(t.Context(), Config{Path: path, Clock: ticking(), ReadOnly: true})
	check(t, err)
	defer func() { _ = l.Close() }()
	var heads []chain.Head
	for _, seq := range []int64{10, 29, 40, 59, 60} {
		row, err := l.Row(t.Context(), seq)
		check(t, err)
		heads = append(heads, chain.Head{Seq: seq, Hash: row.Hash})
	}
	check(t, l.Expect(t.Context(), heads))
	check(t, l.Expect(t.Context(), heads, archives...))
	for _, h := range heads {
		h.Hash = strings.Repeat("0", 64)
		var broken *chain.BrokenError
		if err := l.Expect(t.Context(), []chain.Head{h}, archives...); !errors.As(err, &broken) || broken.Seq != h.Seq {
			t.Errorf("row %d: %v", h.Seq, err)
		}
	}
}

func TestAHeadIsReadAsItIsWritten(t *testing.T) {
	hash := strings.Repeat("0123456789abcdef", 4)
	for _, h := range []chain.Head{{Seq: 1, Hash: hash}, {Seq: 1 << 60, Hash: hash}} {
		if got, err := chain.ParseHead(h.String()); got != h || err != nil {
			t.Errorf("%v: %v %v", h, got, err)
		}
	}
	for _, text := range []string{"", "7", "7:", ":" + hash, "0:" + hash, "-1:" + hash, "7:" + hash[1:], "7:" + strings.ToUpper(hash), "7:" + hash + "0", "x:" + hash, "7 " + hash} {
		if h, err := chain.ParseHead(text); err == nil {
			t.Errorf("%q was read as %v", text, h)
		}
	}
}

// A clean stop makes published rows firm; a restore forgets what another stream held.
func TestAStopInGoodOrderMakesFirmWhatWasPublished(t *testing.T) {
	b := newBook(t)
	b.add(opened(5000), fact.LedgerRecorded{Movement: "top-up", AmountCents: 5, By: "ada", Reason: "card"})
	for _, stopped := range []bool{false, true, true} {
		check(t, b.NotePublished(t.Context(), 2, stopped))
		p, err := b.Published(t.Context())
		check(t, err)
		if want := map[bool]int64{true: 2}[stopped]; p.Seq != 2 || p.FirmSeq != want {
			t.Errorf("stopped %t: %+v", stopped, p)
		}
	}
	out := filepath.Join(t.TempDir(), "backup.db")
	_, err := b.Backup(t.Context(), out, false)
	check(t, err)
	path := filepath.Join(t.TempDir(), "restored.db")
	_, err = Restore{Path: path, From: out, Clock: ticking(), AppID: "sbx_app_a"}.Run(t.Context())
	check(t, err)
	if p, err := openBook(t, path).Published(t.Context()); err != nil || p.Seq != 0 {
		t.Errorf("%+v %v", p, err)
	}
}
