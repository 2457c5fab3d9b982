package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"perennial/jobs"
	"perennial/queue"
)

func (a *app) submitCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "submit FILE…",
		Short: "Publish commands from JSON lines or CSV (- for stdin) and follow them to the end",
		Long: "Each JSON line is one command: with proxy_ids a renewal, else an order. A CSV file has a heading with\n" +
			"id, duration_days, and offer_code and quantity, or proxy_ids separated by spaces; max_total_cents may be added.\n" +
			"Submitting the same file again is harmless: an id is done once.",
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error { return a.submit(cmd.Context(), files) },
	}
}

// entry is one command of a file.
type entry struct {
	id, hash string
	out      queue.Outgoing
}

func (a *app) submit(ctx context.Context, files []string) error {
	var entries []entry
	for _, name := range files {
		more, err := a.readEntries(name)
		if err != nil {
			return &exitError{exitUsage, err}
		}
		entries = append(entries, more...)
	}
	if len(entries) == 0 {
		return usage("there is no command in %s", strings.Join(files, ", "))
	}
	r, err := a.connect()
	if err != nil {
		return err
	}
	defer r.Close()
	out := make([]queue.Outgoing, 0, len(entries))
	for _, e := range entries {
		e.out.Priority = queue.PriorityBulk // a file is a batch: it lets commands by hand pass
		out = append(out, e.out)
	}
	if err := r.PublishCommands(ctx, r.account, out); err != nil {
		return fmt.Errorf("not every command could be published: %w\nsubmit the same file again: what is there already is not done twice", err)
	}
	return a.followAll(ctx, r, entries)
}

func (a *app) readEntries(name string) (entries []entry, err error) {
	in := a.stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		in = f
	}
	if strings.EqualFold(filepath.Ext(name), ".csv") {
		return readCSV(name, in)
	}
	scanner := bufio.NewScanner(in)
	scanner.Buffer(make([]byte, 64<<10), 2*jobs.MaxCommandBytes)
	for n := 1; scanner.Scan(); n++ {
		line := bytes.TrimSpace(scanner.Bytes())
		if len(line) == 0 {
			continue
		}
		e, err := readEntry(bytes.Clone(line))
		if err != nil {
			return nil, fmt.Errorf("%s line %d: %w", name, n, err)
		}
		entries = append(entries, e)
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return entries, nil
}

func readEntry(data []byte) (entry, error) {
	var probe struct {
		ProxyIDs json.RawMessage `json:"proxy_ids"`
	}
	if err := json.Unmarshal(data, &probe); err != nil {
		return entry{}, fmt.Errorf("it is not a JSON object: %w", err)
	}
	e := entry{out: queue.Outgoing{Kind: queue.KindOrderCreate, Data: data}}
	if probe.ProxyIDs != nil {
		e.out.Kind = queue.KindProxyRenew
	}
	c, err := jobs.ParseCommand(kindOf(e.out.Kind), data, jobs.Rules{Environment: "sandbox", CIDRField: "-"})
	if err != nil {
		return e, err
	}
	e.id = c.ID
	_, e.hash, err = c.Content()
	return e, err
}

func readCSV(name string, in io.Reader) ([]entry, error) {
	rows, err := csv.NewReader(in).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	var entries []entry
	for i, row := range rows[1:] {
		body := map[string]any{}
		for k, column := range rows[0] {
			if row[k] == "" {
				continue
			}
			value, err := csvValue(column, row[k])
			if err != nil {
				return nil, fmt.Errorf("%s line %d: %w", name, i+2, err)
			}
			body[column] = value
		}
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		e, err := readEntry(data)
		if err != nil {
			return nil, fmt.Errorf("%s line %d: %w", name, i+2, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func csvValue(column, text string) (any, error) {
	switch column {
	case "duration_days", "quantity", "max_total_cents":
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s is %q and must be a whole number", column, text)
		}
		return n, nil
	case "proxy_ids":
		return strings.Fields(text), nil
	default:
		return text, nil
	}
}

// followAll waits until every command has ended, with a progress bar for
// people, and sums up how they ended.
func (a *app) followAll(ctx context.Context, r *remote, entries []entry) error {
	pending, err := distinct(entries)
	if err != nil {
		return err
	}
	total := len(pending)
	bar := progressbar.NewOptions(total, progressbar.OptionSetWriter(a.stderr), progressbar.OptionSetVisibility(isTerminal(a.stderr)))
	ended := map[string]int{}
	ticker := time.NewTicker(2 * pollEvery)
	defer ticker.Stop()
	away := absence{}
	for {
		pending, err = settlePending(ctx, r, pending, ended)
		if err := away.after(err); err != nil {
			return err
		}
		_ = bar.Set(total - len(pending))
		if len(pending) == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
	_ = bar.Finish()
	if err := a.printEnded(ended, total); err != nil {
		return err
	}
	return batchExit(ended)
}

// distinct leaves out what stands twice; twice with other content is a mistake.
func distinct(entries []entry) ([]entry, error) {
	hashes := make(map[string]string, len(entries))
	out := make([]entry, 0, len(entries))
	for _, e := range entries {
		other, twice := hashes[e.id]
		if twice && other != e.hash {
			return nil, usage("id %s stands twice with different content: choose another id", e.id)
		}
		if !twice {
			hashes[e.id] = e.hash
			out = append(out, e)
		}
	}
	return out, nil
}

// settlePending takes what has ended off the front: commands are carried out in
// about the order of the file, so the runner is asked about few at a time,
// however many there are.
func settlePending(ctx context.Context, r *remote, pending []entry, ended map[string]int) ([]entry, error) {
	for len(pending) > 0 {
		front := pending[:min(len(pending), maxStates)]
		q := statesRequest{}
		for _, e := range front {
			q.IDs, q.Hashes = append(q.IDs, e.id), append(q.Hashes, e.hash)
		}
		states, err := ask[map[string]string](ctx, r, verbStates, q)
		if err != nil {
			return pending, err
		}
		var left []entry
		for _, e := range front {
			if state := states[e.id]; settledState(state) {
				ended[state]++
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

func (a *app) printEnded(ended map[string]int, total int) error {
	if a.output == "json" {
		return printJSON(a.stdout, map[string]any{"commands": total, "states": ended})
	}
	rows := make([][]string, 0, len(ended))
	for state, n := range ended {
		rows = append(rows, []string{state, strconv.Itoa(n)})
	}
	return a.table([]string{"STATE", "COMMANDS"}, rows)
}

// batchExit is the code of a batch: that of its commands when they ended
// alike, else "partly", and "needs a person" above all.
func batchExit(ended map[string]int) error {
	if ended["review"]+ended["held"] > 0 {
		return &exitError{code: exitPerson}
	}
	bad := ended["rejected"] + ended["failed"] + ended["refunded"] + ended[jobs.StateConflict]
	switch good := ended["completed"] + ended["delivered"] + ended["resolved"]; {
	case bad == 0 && ended["partial"] == 0:
		return nil
	case good == 0 && ended["partial"] == 0:
		return &exitError{code: exitFailed}
	default:
		return &exitError{code: exitPartly}
	}
}
