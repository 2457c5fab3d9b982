package ledger

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"perennial/ledger/fact"
)

// change is one change of a directory, or a sync of it.
type change struct{ what, from, to string }

// recordNames records the changes of directories while do runs.
func recordNames(t *testing.T, do func()) (all []change) {
	t.Helper()
	before := names
	defer func() { names = before }()
	two := func(what string, really func(string, string) error) func(string, string) error {
		return func(from, to string) error {
			err := really(from, to)
			if err == nil {
				all = append(all, change{what, from, to})
			}
			return err
		}
	}
	one := func(what string, really func(string) error) func(string) error {
		return func(path string) error {
			return two(what, func(path, _ string) error { return really(path) })(path, "")
		}
	}
	names.link, names.rename = two("link", before.link), two("rename", before.rename)
	names.remove, names.sync = one("remove", before.remove), one("sync", before.sync)
	do()
	return all
}

// powerCuts calls yield with the names that a power cut after each change may leave: what
// was synced, and any part of the rest, in order.
func powerCuts(names map[string]string, changes []change, yield func(map[string]string)) {
	for end := range len(changes) + 1 {
		synced := 0
		for i, c := range changes[:end] {
			if c.what == "sync" {
				synced = i
			}
		}
		open := changes[synced:end]
		for part := range 1 << len(open) {
			left := maps.Clone(names)
			for _, c := range changes[:synced] {
				c.apply(left)
			}
			for i, c := range open {
				if part&(1<<i) != 0 {
					c.apply(left)
				}
			}
			yield(left)
		}
	}
}

func (c change) apply(names map[string]string) {
	content, ok := names[c.from]
	switch {
	case !ok:
	case c.what == "link":
		names[c.to] = content
	case c.what == "rename":
		names[c.to] = content
		delete(names, c.from)
	case c.what == "remove":
		delete(names, c.from)
	}
}

// Whatever a power cut leaves of a restore's renames, the previous ledger has a name with
// its WAL, and no file has another's WAL.
func TestAPowerCutInARestoreMixesNoTwoLedgers(t *testing.T) {
	dir := t.TempDir()
	path, made := filepath.Join(dir, "main.ledger.db"), filepath.Join(dir, "made.db")
	before := map[string]string{path: "old", path + "-wal": "wal of old", path + "-shm": "shm of old", made: "new"}
	for name, content := range before {
		check(t, os.WriteFile(name, []byte(content), 0o600))
	}
	changes := recordNames(t, func() {
		_, err := MoveAside(path, noon)
		check(t, err)
		check(t, keep(made, path))
	})
	n := 0
	powerCuts(before, changes, func(left map[string]string) {
		n++
		whole := false
		for name, content := range left {
			if content == "old" && left[name+"-wal"] == "wal of old" {
				whole = true
			}
			if content == "new" && (left[name+"-wal"] != "" || left[name+"-shm"] != "") {
				t.Errorf("the new ledger would be read with another's WAL: %v", left)
			}
		}
		if !whole {
			t.Errorf("the ledger that was there is lost: %v", left)
		}
	})
	if n < 20 {
		t.Fatalf("only %d cuts: %v", n, changes)
	}
}

// A WAL next to a backup's name would be taken for the new backup's.
func TestABackupDoesNotOverwriteAFileInUse(t *testing.T) {
	t.Parallel()
	b := newBook(t)
	b.add(history()...)
	out := filepath.Join(t.TempDir(), "backup.db")
	_, err := b.Backup(t.Context(), out, false)
	check(t, err)
	used := openBook(t, out)
	used.add(fact.LedgerRecorded{Movement: "top-up", AmountCents: 1, By: "ada", Reason: "card"})
	if _, err := b.Backup(t.Context(), out, true); err == nil || !strings.Contains(err.Error(), "-wal") {
		t.Errorf("in use: %v", err)
	}
	check(t, used.Close())
	_, err = b.Backup(t.Context(), out, true)
	check(t, err)
	if got, want := openBook(t, out).balance(), b.balance(); got != want {
		t.Error(fmt.Sprint(got, want))
	}
}
