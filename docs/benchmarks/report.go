// The tables, in Markdown.

package main

import (
	"fmt"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

// printHead says with what was measured.
func (r *rig) printHead() {
	fmt.Printf("%d cores, %s; %s; %s", runtime.NumCPU(), runtime.Version(), said(r.postgres+"/postgres", "--version"), redisVersion(said(r.redis, "--version")))
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, path := range []string{"github.com/riverqueue/river", "github.com/hibiken/asynq", "github.com/nats-io/nats.go", "github.com/nats-io/nats-server/v2", "go.temporal.io/sdk"} {
			for _, m := range info.Deps {
				if m.Path == path {
					fmt.Printf("; %s %s", strings.TrimPrefix(path, "github.com/"), m.Version)
				}
			}
		}
	}
	if r.temporal != "" {
		fmt.Printf("; %s", said(r.temporal, "--version"))
	}
	fmt.Printf(".\n%d rounds of %d jobs, %d requests under way at most.\n", r.rounds, r.jobs, r.concurrency)
}

func said(program string, args ...string) string {
	out, err := exec.Command(program, args...).Output()
	if err != nil {
		return program + ": " + err.Error()
	}
	return strings.TrimSpace(string(out))
}

// redisVersion is "Redis 7.0.15" of what redis-server says.
func redisVersion(text string) string {
	_, rest, _ := strings.Cut(text, "v=")
	version, _, _ := strings.Cut(rest, " ")
	return "Redis " + version
}

// spread is the median of some figures, with the least and the greatest.
type spread struct{ median, least, most float64 }

func spreadOf(all []measurement, figure func(measurement) float64) spread {
	var values []float64
	for _, m := range all {
		values = append(values, figure(m))
	}
	slices.Sort(values)
	n := len(values)
	return spread{median: (values[(n-1)/2] + values[n/2]) / 2, least: values[0], most: values[n-1]}
}

// ratio shows two digits, and of what is small two that say something.
func (s spread) ratio() string {
	digits := 2
	if s.median < 0.02 {
		digits = 4
	}
	if s.least == s.most {
		return fmt.Sprintf("%.*f", digits, s.median)
	}
	return fmt.Sprintf("%.*f (%.*f–%.*f)", digits, s.median, digits, s.least, digits, s.most)
}

func (s spread) whole() string { return fmt.Sprintf("%.0f", s.median) }

func printRates(chosen []contender, rates map[string][]measurement) {
	var every []measurement
	for _, c := range chosen {
		every = append(every, rates[c.id]...)
	}
	direct := spreadOf(every, func(m measurement) float64 { return m.DirectPerSecond })
	fmt.Print("\n| | jobs/s, end to end | ratio | jobs/s, drained | ratio | µs of CPU a job: worker | and its store | on the disk |\n|---|---|---|---|---|---|---|---|\n")
	fmt.Printf("| the bare client: no queue, no record | %s | 1 | %s | 1 | %s | | nothing |\n", direct.whole(), direct.whole(),
		spreadOf(every, func(m measurement) float64 { return m.DirectCPU }).whole())
	for _, c := range chosen {
		all := rates[c.id]
		store := spreadOf(all, func(m measurement) float64 { return m.EndToEnd.StoreCPU }).whole()
		if c.peer == "" {
			store = "included"
		}
		fmt.Printf("| %s | %s | %s | %s | %s | %s | %s | %s |\n", c.label,
			spreadOf(all, func(m measurement) float64 { return m.EndToEnd.PerSecond }).whole(),
			spreadOf(all, func(m measurement) float64 { return m.EndToEnd.PerSecond / m.DirectPerSecond }).ratio(),
			spreadOf(all, func(m measurement) float64 { return m.Drained.PerSecond }).whole(),
			spreadOf(all, func(m measurement) float64 { return m.Drained.PerSecond / m.DirectPerSecond }).ratio(),
			spreadOf(all, func(m measurement) float64 { return m.EndToEnd.WorkerCPU }).whole(), store, c.disk)
	}
}

func printKills(r *rig, all []killed) {
	fmt.Printf("\nReplies after %d to %d ms, the worker killed %d times:\n\n", replyAfter.Milliseconds(), (replyAfter + replyJitter).Milliseconds(), r.kills)
	fmt.Print("| | Idempotency-Key | jobs | jobs lost | jobs charged more than once | charges too many | last kill after, s | all settled after, s | that is behind the last kill, s |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, k := range all {
		i := slices.IndexFunc(contenders, func(c contender) bool { return c.id == k.Contender })
		settled := fmt.Sprintf("%.1f", k.Settled)
		if k.Open > 0 {
			settled = fmt.Sprintf("%d still open after %.0f", k.Open, k.Settled)
		}
		keys := map[string]string{keyPerAttempt: "random, per attempt", keyPerJob: "per job", "own": "its own, durable"}[k.Keys]
		if k.Books != "" {
			keys += "; books " + k.Books
		}
		fmt.Printf("| %s | %s | %d | %d | %d | %d | %.1f | %s | %.1f |\n", contenders[i].label, keys, k.Jobs, k.Lost, k.Doubled, k.Extra, k.Worked, settled, k.Settled-k.Worked)
	}
}
