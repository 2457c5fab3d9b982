package jobs

import (
	"database/sql"
	"testing"

	"github.com/sirupsen/logrus"

	"perennial/ledger/fact"
)

// unreadable makes the journal's row that accepted a command unreadable until repaired.
func (h *rig) unreadable(command string) (repaired func()) {
	h.t.Helper()
	shell, err := sql.Open("sqlite3", "file:"+h.path+"?_busy_timeout=10000")
	check(h.t, err)
	h.t.Cleanup(func() { _ = shell.Close() })
	var triggers []string
	rows, err := shell.Query(`SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = 'journal' AND sql LIKE '%BEFORE UPDATE%'`)
	check(h.t, err)
	for rows.Next() {
		var name, create string
		check(h.t, rows.Scan(&name, &create))
		triggers = append(triggers, name, create)
	}
	check(h.t, rows.Err())
	check(h.t, rows.Close())
	set := func(data string) (was string) {
		for i := 0; i < len(triggers); i += 2 {
			_, err := shell.Exec("DROP TRIGGER " + triggers[i])
			check(h.t, err)
		}
		const row = `WHERE type = 'command.accepted' AND json_extract(CASE WHEN json_valid(data) THEN data ELSE '{"command_id":"` + "broken" + `"}' END, '$.command_id') IN (?, 'broken')`
		check(h.t, shell.QueryRow(`SELECT data FROM journal `+row, command).Scan(&was))
		_, err := shell.Exec(`UPDATE journal SET data = ? `+row, data, command)
		check(h.t, err)
		for i := 1; i < len(triggers); i += 2 {
			_, err := shell.Exec(triggers[i])
			check(h.t, err)
		}
		return was
	}
	good := set("{")
	return func() { set(good) }
}

// TestWhatCouldNotBeQueuedIsQueuedLater: an operation whose command cannot be read when the
// runner starts, accepted or being sent, is taken up when the command can be read.
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
		repaired()
		h.await("r0", fact.StateCompleted)
	}
}
