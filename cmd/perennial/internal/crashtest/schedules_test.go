package crashtest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perennial/cmd/perennial/internal/cli"
	"perennial/schedules"
)

// The schedule stays paused over a kill. After the resume, it renews what the pause held back.
func TestAPausedScheduleStaysPausedOverAKill(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.configure("", "schedules:\n  - {name: keep, cron: \"@every 1s\", renew_before: 300h, duration_days: 30}\n")
	run, line := w.run()
	awaitReady(t, line)
	sweep := func() (s schedules.Status) {
		t.Helper()
		if err := json.Unmarshal([]byte(w.mustCLI("sweep", "list", "-o", "json")), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	await(t, "it fires", func() bool { return sweep().LastSlot != nil })
	w.mustCLI("schedules", "pause", "keep", "--by", "ada", "--reason", "prices change")
	paused := sweep()
	run.kill()
	_, line = w.run()
	awaitReady(t, line)
	if s := sweep(); s.Paused == nil || s.Paused.By != "ada" || s.Paused.Reason != "prices change" || s.NextSlot != nil || !s.LastSlot.Equal(*paused.LastSlot) {
		t.Errorf("behind the kill: %+v", s)
	}
	if _, errs, code := w.cli("status"); code != 0 || !strings.Contains(errs, "PAUSED since") {
		t.Errorf("status does not say it: %d %s", code, errs)
	}
	if page, err := w.get(line.HTTP + "/metrics"); err != nil || !strings.Contains(page, `perennial_schedule_paused_timestamp_seconds{account="main",schedule="keep"}`) {
		t.Errorf("no metric says it: %v", err)
	}
	w.mustCLI("schedules", "resume", "keep", "--by", "ada", "--reason", "they are known")
	await(t, "it fires again", func() bool { s := sweep(); return s.Paused == nil && s.LastSlot.After(*paused.LastSlot) })
	for _, args := range [][]string{{"schedules", "resume", "keep"}, {"schedules", "pause", "keep", "--until", "2020-01-01T00:00:00Z"}} {
		if _, errs, code := w.cli(args...); code != 1 {
			t.Errorf("%v: exit %d %s", args, code, errs)
		}
	}
	if _, _, code := w.cli("schedules", "pause", "keep", "--until", "soon"); code != 2 {
		t.Errorf("--until soon: exit %d", code)
	}
}

// The schedules' commands are not sent while the account is paused.
func TestAPausedAccountIsNamedBesideItsSchedules(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.configure("", "schedules:\n  - {name: keep, cron: \"0 0 1 1 *\", renew_before: 300h, duration_days: 30}\n")
	_, line := w.run()
	awaitReady(t, line)
	w.mustCLI("accounts", "pause", "--by", "ada", "--reason", "prices change")
	for _, command := range [][]string{{"schedules", "list"}, {"schedules", "show", "keep"}} {
		if out := w.mustCLI(command...); !strings.Contains(out, "the account is paused since ") || !strings.Contains(out, "by ada: prices change") {
			t.Errorf("%v does not say it:\n%s", command, out)
		}
	}
	w.mustCLI("accounts", "resume", "--by", "ada", "--reason", "they are known")
	if out := w.mustCLI("schedules", "list"); strings.Contains(out, "paused") {
		t.Errorf("it is resumed:\n%s", out)
	}
}

// The command says whether it keeps the new reason or the old one.
func TestASecondPauseSaysWhatBecomesOfItsReason(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.configure("", `schedules:
  - {name: keep, cron: "0 0 1 1 *", renew_before: 300h, duration_days: 30}
`)
	w.run()
	w.mustCLI("accounts", "pause", "--by", "ada", "--reason", "prices change")
	out := w.mustCLI("accounts", "pause", "--by", "bob", "--reason", "the provider moves")
	for _, part := range []string{"nothing to change: the account is paused already since 20", "by ada", "prices change", "the new one is not kept"} {
		if !strings.Contains(out, part) {
			t.Errorf("%q is not in: %s", part, out)
		}
	}
	if out := w.mustCLI("status"); !strings.Contains(out, "prices change") {
		t.Errorf("the first reason is lost:\n%s", out)
	}
	w.mustCLI("schedules", "pause", "keep", "--by", "ada", "--reason", "prices change")
	out = w.mustCLI("schedules", "pause", "keep", "--by", "bob", "--reason", "the provider moves")
	for _, part := range []string{"paused schedule keep", "it was paused already since 20", "by ada", "prices change; the new reason and end replace these"} {
		if !strings.Contains(out, part) {
			t.Errorf("%q is not in: %s", part, out)
		}
	}
	if out := w.mustCLI("schedules", "show", "keep"); !strings.Contains(out, "the provider moves") {
		t.Errorf("the second reason is lost:\n%s", out)
	}
}

// `schedules list`, doctor and the metrics report the removed name until the new schedule has
// `was:`.
func TestARenamedScheduleIsNamedUntilItSaysWhatItWas(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	const schedule = ", cron: '0 0 1 1 *', renew_before: 300h, duration_days: 30, approve_over_cents: 1}\n"
	w.configure("", "schedules:\n  - {name: keep"+schedule)
	run, line := w.run()
	awaitReady(t, line)
	w.mustCLI("renew", "px_2", "--id", "price", "--wait")
	if _, errs, code := w.cli("sweep", "run", "keep"); code != cli.ExitPerson {
		t.Fatalf("sweep run: exit %d %s", code, errs)
	}
	run.kill()
	held := func(name string) (s schedules.Status) {
		t.Helper()
		for one := range strings.SplitSeq(strings.TrimSpace(w.mustCLI("sweep", "list", "-o", "json")), "\n") {
			s = schedules.Status{}
			if err := json.Unmarshal([]byte(one), &s); err != nil || s.Schedule == name {
				return s
			}
		}
		return schedules.Status{}
	}
	w.configure("", "schedules:\n  - {name: fleet"+schedule)
	run, line = w.run()
	awaitReady(t, line)
	if s := held("keep"); s.Plan == "" || !strings.Contains(s.Removed, "add `was: keep`") {
		t.Errorf("sweep list: %+v", s)
	}
	if f := examined(t, w, cli.ExitDone)["schedule keep"]; !f.Warning || !strings.Contains(f.Seen, "it holds plan") {
		t.Errorf("doctor: %+v", f)
	}
	if page, err := w.get(line.HTTP + "/metrics"); err != nil || !strings.Contains(page, `perennial_sweep_state{account="main",schedule="keep",state="held"} 1`) {
		t.Errorf("no metric says it: %v", err)
	}
	run.kill()
	w.configure("", "schedules:\n  - {name: fleet, was: keep"+schedule)
	_, line = w.run()
	awaitReady(t, line)
	await(t, "it is carried over", func() bool { return held("fleet").Plan != "" && held("keep").Schedule == "" })
	w.mustCLI("sweep", "approve", held("fleet").Plan, "--by", "ada", "--reason", "checked")
}

// The backup is made beside a run.
func TestTheAgeOfABackupIsAMetric(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.configure("", "")
	_, line := w.run()
	awaitReady(t, line)
	const never = `perennial_backup_timestamp_seconds{account="main"} 0` + "\n"
	page, err := w.get(line.HTTP + "/metrics")
	if err != nil || !strings.Contains(page, never) {
		t.Errorf("before the first one: %v", err)
	}
	w.mustCLI("ledger", "backup", "backup.db")
	page, err = w.get(line.HTTP + "/metrics")
	if err != nil || strings.Contains(page, never) || !strings.Contains(page, `perennial_backup_timestamp_seconds{account="main"} 1.`) {
		t.Errorf("behind it: %v", err)
	}
	noted, err := os.ReadFile(filepath.Join(w.dir, "data", "main.ledger.db.backup.json"))
	var b struct {
		At   time.Time
		File string
	}
	if err == nil {
		err = json.Unmarshal(noted, &b)
	}
	if err != nil || time.Since(b.At) > time.Hour || b.File != filepath.Join(w.dir, "backup.db") {
		t.Errorf("%s: %v", noted, err)
	}
}
