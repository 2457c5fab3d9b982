package ledger

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
)

// budget reads ledger/testdata/budget.txt by name.
func budget(t *testing.T) map[string]float64 {
	t.Helper()
	text, err := os.ReadFile("testdata/budget.txt")
	check(t, err)
	all := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		line, why, _ := strings.Cut(line, "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		var name string
		var most float64
		if _, err := fmt.Sscan(line, &name, &most); err != nil || strings.TrimSpace(why) == "" {
			t.Fatalf("testdata/budget.txt: %q: a name, a number, and a reason behind #: %v", line, err)
		}
		all[name] = most
	}
	return all
}

// The test counts the statements, allocations, syncs and bytes of renewals, but not time.
func TestTheLedgerKeepsItsBudget(t *testing.T) {
	disk := onDisk(t, "budget")
	if disk == nil {
		return
	}
	const group, groups = 32, 20
	b := newBook(t)
	b.add(opened(1 << 40))
	commit := func(n int, one func(*Tx, int) error) {
		check(t, b.Write(context.Background(), func(tx *Tx) error {
			for i := n; i < n+group; i++ {
				if err := one(tx, i); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	renewals := func(from, groups int) {
		for n := from; n < from+groups*group; n += group {
			commit(n, benchAcceptWhole)
			commit(n, benchSettleWhole)
		}
	}
	renewals(0, 4) // prepares statements and grows buffers
	before, err := disk.Events()
	check(t, err)
	var memory, then runtime.MemStats
	seq, _, err := b.Head(t.Context())
	check(t, err)
	ran := b.write.ran
	runtime.ReadMemStats(&memory)
	renewals(4*group, groups)
	runtime.ReadMemStats(&then)
	used := map[string]float64{
		"statements":  float64(b.write.ran-ran) / (group * groups),
		"allocations": float64(then.Mallocs-memory.Mallocs) / (group * groups),
	}
	events, err := disk.Events()
	check(t, err)
	syncs, written := 0, 0
	for _, e := range events[len(before):] {
		switch {
		case e.Op == 'S' && strings.HasSuffix(e.Name, "-wal"):
			syncs++
		case e.Op == 'W' && strings.HasSuffix(e.Name, "-wal"):
			written += len(e.Data)
		}
	}
	used["syncs"], used["log_bytes"] = float64(syncs)/(2*groups), float64(written)/(group*groups)
	var bytes int64
	check(t, b.read.QueryRowContext(t.Context(), `SELECT sum(length(data)) FROM journal WHERE seq > ?`, seq).Scan(&bytes))
	used["row_bytes"] = float64(bytes) / (group * groups)
	for name, most := range budget(t) {
		got, counted := used[name]
		switch {
		case !counted:
			t.Errorf("%s is in the budget and is not counted", name)
		case got > most:
			t.Errorf("%s: %.1f of %g: say in testdata/budget.txt why it is worth more, or use less", name, got, most)
		case got < 0.9*most:
			t.Errorf("%s: %.1f of %g: lower the budget", name, got, most)
		}
		delete(used, name)
	}
	for name := range used {
		t.Errorf("%s is counted and is not in the budget", name)
	}
}
