// What `perennial bench` prints.

package cli

import (
	"fmt"
	"strconv"
)

func (a *app) printBench(r benchResult) error {
	if a.output == "json" {
		return printJSON(a.stdout, r)
	}
	rows := [][]string{
		{"commands", r.what()},
		{"direct", fmt.Sprintf("%.0f/s, %.0f us of CPU each", r.DirectPerSecond, r.DirectCPUMicros)},
		{"runner", fmt.Sprintf("%.0f/s, %.0f us of CPU and %.0f allocations each", r.RunnerPerSecond, r.RunnerCPUMicros, r.RunnerAllocations)},
		{"ratio", fmt.Sprintf("%.2f", r.Ratio)},
		{"publish to event", fmt.Sprintf("p50 %.1f ms, p99 %.1f ms, %d in flight", r.P50Millis, r.P99Millis, r.InFlight)},
	}
	if d := r.Drained; d != nil {
		rows = append(rows, []string{"full queue", fmt.Sprintf("%.0f/s (ratio %.2f), %.0f us of CPU and %.0f allocations each", d.PerSecond, d.Ratio, d.CPUMicros, d.Allocations)})
	}
	if p := r.Pages; p != nil {
		rows = append(rows, []string{
			fmt.Sprintf("%d open pages", p.Open), fmt.Sprintf("%.0f/s (%.2f of the runner alone), %.0f us of CPU each; %d pages loaded, p50 %.1f ms, p99 %.1f ms", p.PerSecond, p.Ratio, p.CPUMicros, p.Loaded, p.P50Millis, p.P99Millis),
		})
	}
	rows = append(rows, [][]string{
		{"peak memory", fmt.Sprintf("%.0f MiB", float64(r.PeakMemoryBytes)/(1<<20))},
		{"ledger", fmt.Sprintf("%.0f bytes a command", float64(r.LedgerBytes-r.ledgerBytesBefore)/float64(r.Commands))},
		{"books agree", strconv.FormatBool(r.BooksAgree)},
	}...)
	if r.Outer != nil {
		rows = append(rows, r.Outer.rows(r)...)
	}
	return a.table([]string{"BENCH", r.Kind}, rows)
}

// what was carried out, and where.
func (r *benchResult) what() string {
	text := fmt.Sprintf("%d at concurrency %d on %d cores", r.Commands, r.Concurrency, r.Cores)
	if r.Accounts > 1 {
		text += fmt.Sprintf(" each, for %d accounts", r.Accounts)
	}
	if r.ledgerBytesBefore > 0 {
		text += fmt.Sprintf(", behind %d rows (%.0f MiB)", r.RowsBefore, float64(r.ledgerBytesBefore)/(1<<20))
	}
	return text
}

// rows are the lines of the run with another server, each beside the embedded one's.
func (o *outerResult) rows(r benchResult) [][]string {
	where := "one server"
	if o.Servers > 1 {
		where = fmt.Sprintf("%d servers", o.Servers)
	}
	return [][]string{
		{"", ""},
		{"with --nats", fmt.Sprintf("%s, %d replicas", where, o.Replicas)},
		{"runner", fmt.Sprintf("%.0f/s, %.0f us of CPU each (embedded: %.0f/s, %.0f us)", o.PerSecond, o.CPUMicros, r.RunnerPerSecond, r.RunnerCPUMicros)},
		{"publish to event", fmt.Sprintf("p50 %.1f ms, p99 %.1f ms (embedded: %.1f, %.1f)", o.P50Millis, o.P99Millis, r.P50Millis, r.P99Millis)},
		{"events stream", fmt.Sprintf("%d groups of %.1f rows, %.2f ms each: %.0f%% of the time", o.Groups, o.RowsPerGroup, o.PublishMillis, 100*o.PublishShare)},
		{"all else of the writer", fmt.Sprintf("%.2f ms between two groups: gathering, SQLite, the commit", o.BetweenMillis)},
		{"provider", fmt.Sprintf("%.2f ms a request", o.ProviderMillis)},
		{"disk", fmt.Sprintf("ledger %.0f, events %.0f bytes a command", float64(o.LedgerBytes)/float64(r.Commands), float64(o.EventsBytes)/float64(r.Commands))},
		{"books agree", strconv.FormatBool(o.BooksAgree)},
	}
}
