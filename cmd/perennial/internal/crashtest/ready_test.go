package crashtest

import (
	"encoding/json"
	"strings"

	"perennial/cmd/perennial/internal/daemon"
)

func (w *world) readySays(line daemon.ReadyLine, text string) {
	w.t.Helper()
	await(w.t, "/readyz says "+text, func() bool {
		said, err := w.get(line.HTTP + "/readyz")
		return err == nil && (said == text || text != ready && strings.Contains(said, text))
	})
}

// ready is the whole text of /readyz when everything works.
const ready = "ok\n"

func (w *world) verbose(line daemon.ReadyLine) (v daemon.Readiness) {
	w.t.Helper()
	text, err := w.get(line.HTTP + "/readyz?verbose")
	if err == nil {
		err = json.Unmarshal([]byte(text), &v)
	}
	if err != nil || len(v.Accounts) != 1 {
		w.t.Fatalf("%s: %v", text, err)
	}
	return v
}

// passes reports whether the only account has the check, with a time, and the check is ok.
func passes(v daemon.Readiness, name string) bool {
	for _, c := range v.Accounts[0].Checks {
		if c.Name == name {
			return c.OK && !c.Since.IsZero()
		}
	}
	return false
}
