package bench

import (
	"fmt"
	"time"
)

// Used is the rate of all accounts together, and what the runner's process used for each
// command.
type Used struct {
	PerSecond   float64 `json:"runner_per_second"`
	CPUMicros   float64 `json:"runner_cpu_us_per_command"`
	Allocations float64 `json:"allocations_per_command"` // number of heap allocations
}

// Latency is the time from a command's publication to its last event.
type Latency struct {
	P50Millis float64 `json:"p50_ms"`
	P99Millis float64 `json:"p99_ms"`
}

// Carried is the measurement of one part of the benchmark.
type Carried struct {
	Used
	Latency
	LedgerBytes int64 `json:"ledger_bytes"` // size of the ledgers after the part
	RowsBefore  int64 `json:"rows_before"`  // average rows of a journal before the measurement
	BooksAgree  bool  `json:"books_agree"`

	ledgerBytesBefore, rows, walletCents int64
	took                                 time.Duration
}

// Result is the measurement of a benchmark.
type Result struct {
	Kind             string  `json:"kind"`
	Commands         int     `json:"commands"`
	Concurrency      int     `json:"concurrency"`
	InFlight         int     `json:"in_flight"` // limit of unfinished commands
	Accounts         int     `json:"accounts"`
	Cores            int     `json:"cores"`
	DirectPerSecond  float64 `json:"direct_per_second"`
	Ratio            float64 `json:"ratio"` // the runner's rate divided by the direct rate
	DirectCPUMicros  float64 `json:"direct_cpu_us_per_command"`
	Carried                  // BooksAgree is true if the books agree after every part on the embedded server
	PeakMemoryBytes  int64   `json:"peak_memory_bytes"`
	WalletCents      int64   `json:"wallet_cents"`
	SandboxProcesses int     `json:"sandbox_processes"`

	Drained *Drained `json:"drained,omitempty"` // nil without --drain
	Outer   *Outer   `json:"outer,omitempty"`   // nil without --nats
}

// Drained measures how the runner drains a full queue, from its first command to the last
// event.
type Drained struct {
	Carried
	Ratio float64 `json:"ratio"` // rate divided by the direct rate
}

// Outer measures the runner with an external NATS server or cluster. It does not include
// what the servers' processes used.
type Outer struct {
	Servers  int `json:"servers"` // number of servers that the connected server lists
	Replicas int `json:"replicas"`
	Carried
	Groups         int64   `json:"groups"` // number of atomic batches; the writer publishes one before each COMMIT
	RowsPerGroup   float64 `json:"rows_per_group"`
	PublishMillis  float64 `json:"publish_ms"`    // mean time from sending a batch to the cluster's acknowledgement
	PublishShare   float64 `json:"publish_share"` // share of the total time spent publishing, from 0 to 1
	BetweenMillis  float64 `json:"between_ms"`    // mean time from a batch's acknowledgement to the sending of the next batch
	ProviderMillis float64 `json:"provider_ms"`   // mean time of one request
	EventsBytes    int64   `json:"events_bytes"`  // size of one replica of the events stream
	Rows           int64   `json:"rows"`          // rows of the journal
}

// Agree reports whether the books of every part agree with the provider's wallet.
func (r *Result) Agree() bool { return r.BooksAgree && (r.Outer == nil || r.Outer.BooksAgree) }

// Table returns the result as rows, each with a name and a value.
func (r *Result) Table() (rows [][]string) {
	add := func(name, format string, args ...any) {
		rows = append(rows, []string{name, fmt.Sprintf(format, args...)})
	}
	add("commands", "%s", r.what())
	add("direct", "%.0f/s, %.0f us of CPU each", r.DirectPerSecond, r.DirectCPUMicros)
	add("runner", "%.0f/s, %.0f us of CPU and %.0f allocations each", r.PerSecond, r.CPUMicros, r.Allocations)
	add("ratio", "%.2f", r.Ratio)
	add("publish to event", "p50 %.1f ms, p99 %.1f ms, %d in flight", r.P50Millis, r.P99Millis, r.InFlight)
	if d := r.Drained; d != nil {
		add("full queue", "%.0f/s (ratio %.2f), %.0f us of CPU and %.0f allocations each", d.PerSecond, d.Ratio, d.CPUMicros, d.Allocations)
	}
	add("peak memory", "%.0f MiB", float64(r.PeakMemoryBytes)/(1<<20))
	add("ledger", "%.0f bytes a command", float64(r.LedgerBytes-r.ledgerBytesBefore)/float64(r.Commands))
	add("books agree", "%t", r.BooksAgree)
	o := r.Outer
	if o == nil {
		return rows
	}
	where := "one server"
	if o.Servers > 1 {
		where = fmt.Sprintf("%d servers", o.Servers)
	}
	add("", "")
	add("with --nats", "%s, %d replicas", where, o.Replicas)
	add("runner", "%.0f/s, %.0f us of CPU each (embedded: %.0f/s, %.0f us)", o.PerSecond, o.CPUMicros, r.PerSecond, r.CPUMicros)
	add("publish to event", "p50 %.1f ms, p99 %.1f ms (embedded: %.1f, %.1f)", o.P50Millis, o.P99Millis, r.P50Millis, r.P99Millis)
	add("events stream", "%d groups of %.1f rows, %.2f ms each: %.0f%% of the time", o.Groups, o.RowsPerGroup, o.PublishMillis, 100*o.PublishShare)
	add("all else of the writer", "%.2f ms between two groups: gathering, SQLite, the commit", o.BetweenMillis)
	add("provider", "%.2f ms a request", o.ProviderMillis)
	add("disk", "ledger %.0f, events %.0f bytes a command", float64(o.LedgerBytes)/float64(r.Commands), float64(o.EventsBytes)/float64(r.Commands))
	add("books agree", "%t", o.BooksAgree)
	return rows
}

func (r *Result) what() string {
	text := fmt.Sprintf("%d at concurrency %d on %d cores", r.Commands, r.Concurrency, r.Cores)
	if r.Accounts > 1 {
		text += fmt.Sprintf(" each, for %d accounts", r.Accounts)
	}
	if r.ledgerBytesBefore > 0 {
		text += fmt.Sprintf(", behind %d rows (%.0f MiB)", r.RowsBefore, float64(r.ledgerBytesBefore)/(1<<20))
	}
	return text
}
