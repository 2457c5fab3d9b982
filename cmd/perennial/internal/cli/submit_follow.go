// `perennial submit` after publication: it follows the commands, prints a summary, and
// writes the file of rejects.

package cli

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs/inspect"
	"perennial/ledger/files"
	"perennial/ledger/sleep"
)

// reject is a line of the --rejects file: a line or command that was not fully carried out.
type reject struct {
	File   string `json:"file"`
	Line   int    `json:"line"`
	ID     string `json:"id"`
	State  string `json:"state"`
	Reason string `json:"reason"`
}

// String returns the position of the line in its file, and the reason.
func (r reject) String() string {
	if r.ID == "" {
		return fmt.Sprintf("%s line %d: %s", r.File, r.Line, r.Reason)
	}
	return fmt.Sprintf("%s line %d (id %s): %s", r.File, r.Line, r.ID, r.Reason)
}

// rejectsShown limits how many rejects are printed. The --rejects file contains all of them.
const rejectsShown = 20

// followAll shows a progress bar until every command has ended or needs an operator. It then
// prints a summary, even after an interrupt.
func (s *submitting) followAll(ctx context.Context, r *remote, pending []entry) error {
	total, bar := len(pending), s.bar(len(pending), "carried out")
	ended := map[string]int{}
	var failed []ending
	settled := func(e entry, state string) {
		ended[state]++
		if code := stateCode(state); code == ExitFailed || code == ExitPartly {
			failed = append(failed, ending{e, state})
		}
	}
	away := newAbsence()
	var err error
	for {
		pending, err = settlePending(ctx, r, pending, settled)
		if ctx.Err() != nil {
			break
		}
		if err := away.after(err); err != nil {
			return errors.Join(err, s.sumUp(ctx, r, ended, total, failed))
		}
		_ = bar.Set(total - len(pending))
		if len(pending) == 0 {
			break
		}
		if sleep.For(ctx, pollEvery) == nil { // the error does not matter, because the next round reads the states again
			_ = untilOver(ctx, r, pending[0].id, notTakenIn)
		}
	}
	_ = bar.Finish()
	if len(pending) > 0 {
		ended["not ended yet"] = len(pending)
	}
	if err := s.sumUp(context.WithoutCancel(ctx), r, ended, total, failed); err != nil {
		return err
	}
	if ctx.Err() != nil {
		fmt.Fprintln(s.app.stderr, "interrupted: the commands continue; submit the same file again to follow them")
		return ctx.Err()
	}
	return batchExit(ended)
}

// ending is a command that was not carried out completely, with its final state.
type ending struct {
	entry

	state string
}

// sumUp prints how the commands ended, and why some were not carried out.
func (s *submitting) sumUp(ctx context.Context, r *remote, ended map[string]int, total int, failed []ending) error {
	rejects := []reject{}
	for i, e := range failed {
		if i == rejectsShown && s.rejects == "" {
			break
		}
		x := reject{File: e.file, Line: e.line, ID: e.id}
		status, err := ask(ctx, r, verbs.Status, verbs.OperatorRequest{ID: e.id})
		if x.State, x.Reason = status.State, status.Reason; err != nil {
			x.Reason = "the reason could not be read: " + err.Error()
		}
		if e.state == inspect.StateConflict { // status is the state of the earlier content with this id
			x.State, x.Reason = e.state, fmt.Sprintf("the id was accepted before with other content, which is kept and is %s: choose another id", status.State)
		}
		rejects = append(rejects, x)
	}
	err := s.writeRejects(rejects)
	return errors.Join(s.app.printEnded(ended, total, rejects[:min(len(rejects), rejectsShown)]), err)
}

// canWriteRejects checks before publishing that the file of rejects can be written.
func (s *submitting) canWriteRejects() error {
	if s.rejects == "" {
		return nil
	}
	if err := s.app.outputs().check(s.rejects); err != nil {
		return err
	}
	if err := files.Writable(s.rejects); err != nil {
		return usage("--rejects: %w\nnothing was published: name a file that can be written", err)
	}
	return nil
}

// writeRejects writes the file of --rejects, if the flag is set.
func (s *submitting) writeRejects(all []reject) error {
	if s.rejects == "" {
		return nil
	}
	return s.app.outputs().write(s.rejects, 0o600, func(w io.Writer) error {
		out := json.NewEncoder(w)
		for _, x := range all {
			if err := out.Encode(x); err != nil {
				return err
			}
		}
		return nil
	})
}

// settlePending removes settled commands from the front of pending. The runner takes
// commands roughly in the order of the file, so only the first need to be checked.
func settlePending(ctx context.Context, r *remote, pending []entry, settled func(entry, string)) ([]entry, error) {
	for len(pending) > 0 {
		front := pending[:min(len(pending), verbs.MaxStates)]
		q := verbs.StatesRequest{}
		for _, e := range front {
			q.IDs, q.Hashes, q.Messages = append(q.IDs, e.id), append(q.Hashes, e.hash), append(q.Messages, hex.EncodeToString(e.message[:]))
		}
		states, err := ask(ctx, r, verbs.States, q)
		if err != nil {
			return pending, err
		}
		var left []entry
		for _, e := range front {
			if state := states[e.id]; settledState(state) {
				settled(e, state)
			} else {
				left = append(left, e)
			}
		}
		pending = append(left, pending[len(front):]...)
		if len(left) > 0 {
			break
		}
	}
	return pending, nil
}

func (a *app) printEnded(ended map[string]int, total int, refused []reject) error {
	if a.output == "json" {
		return printJSON(a.stdout, map[string]any{"commands": total, "states": ended, "rejects": refused})
	}
	rows := make([][]string, 0, len(ended))
	for _, state := range slices.Sorted(maps.Keys(ended)) {
		rows = append(rows, []string{state, strconv.Itoa(ended[state])})
	}
	if err := a.table([]string{"STATE", "COMMANDS"}, rows); err != nil || len(refused) == 0 {
		return err
	}
	lines := make([][]string, 0, len(refused))
	for _, x := range refused {
		lines = append(lines, []string{x.ID, x.State, x.Reason})
	}
	fmt.Fprintln(a.stdout)
	return a.table([]string{"COMMAND", "STATE", "REASON"}, lines)
}

// batchExit returns the exit code of a batch as an error: ExitPerson if a command needs an
// operator, ExitPartly if only a part was carried out, ExitFailed if nothing was. It returns
// nil if everything was.
func batchExit(states map[string]int) error {
	codes := map[int]bool{}
	for state := range states {
		codes[stateCode(state)] = true
	}
	switch {
	case codes[ExitPerson]:
		return &exitError{code: ExitPerson}
	case codes[ExitPartly] || codes[ExitFailed] && codes[ExitDone]:
		return &exitError{code: ExitPartly}
	case codes[ExitFailed]:
		return &exitError{code: ExitFailed}
	}
	return nil
}
