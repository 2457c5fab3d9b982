package jobs

import (
	"database/sql"
	"testing"

	"github.com/sirupsen/logrus"

	"perennial/ledger/fact"
)

// unreadable makes the acceptance of a command unreadable until repaired is called.
func (h *rig) unreadable(command string) (repaired func()) {
	h.t.Helper()
	shell, err := sql.Open("sqlite3", "file:"+h.path+"?_busy_timeout=10000")
	check(h.t, err)
	h.t.Cleanup(func() { _ = shell.Close() })
	var seq int64
	var data, guard string
	check(h.t, shell.QueryRow(`SELECT sql FROM sqlite_schema WHERE name = 'journal_no_update'`).Scan(&guard))
	check(h.t, shell.QueryRow(`SELECT seq, data FROM journal WHERE type = 'command.accepted' AND data ->> '$.command_id' = ?`, command).Scan(&seq, &data))
	set := func(data string) {
		_, err := shell.Exec(`DROP TRIGGER journal_no_update; UPDATE journal SET data = ? WHERE seq = ?; `+guard, data, seq)
		check(h.t, err)
	}
	set("{")
	return func() { set(data) }
}

// An operation whose command cannot be read at the start, whether accepted or being sent, is
// queued once the command can be read.
func TestWhatCouldNotBeQueuedIsQueuedLater(t *testing.T) {
	t.Parallel()
	for name, left := range map[string]func() *rig{
		"accepted": func() *rig {
			h := idleRig(t)
			h.accepts(`{"id":"r0","proxy_ids":["px_1"],"duration_days":30}`)
			return h
		},
		"sending": func() *rig { return leftBehind(t, 1) },
	} {
		h := left()
		heard, log := make(failures, 16), quiet()
		log.AddHook(heard)
		h.bind(func(c *Config) { c.Log = logrus.NewEntry(log) })
		repaired := h.unreadable("r0")
		h.start()
		t.Log(name, <-heard)
		if h.runner.Unqueued() == nil {
			t.Errorf("%s: the runner does not say that an operation is not queued", name)
		}
		repaired()
		h.await("r0", fact.StateCompleted)
		if !h.runner.queueMissed(t.Context()) || h.runner.Unqueued() != nil {
			t.Errorf("%s: %v", name, h.runner.Unqueued())
		}
	}
}
