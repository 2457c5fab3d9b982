//go:build check

// Power cuts of NATS servers. kill -9 keeps everything that was written. A power cut keeps only
// what was synced, by default up to two minutes less. The tests simulate it with a copy of the
// server's directory, to which the server falls back.

package clustertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// cutPower cuts the power of several servers at the same moment, 1 to 5 s after they last synced.
// It returns when they have restarted and caught up: before that, no other server may lose unsynced
// data.
func (r *rig) cutPower(random *rand.Rand, nodes ...int) {
	r.t.Helper()
	r.nats.keepSynced(nodes...)
	r.lasts(time.Second + time.Duration(random.IntN(4000))*time.Millisecond)
	r.nats.fallBack(nodes...)
	r.current()
}

// keepSynced stops servers for a moment and copies their directories. A later power cut leaves
// these copies.
func (c *cluster) keepSynced(nodes ...int) {
	c.t.Helper()
	defer func() {
		for _, i := range nodes {
			c.nodes[i].signal(syscall.SIGCONT)
		}
	}()
	for _, i := range nodes {
		c.nodes[i].signal(syscall.SIGSTOP)
	}
	for _, i := range nodes {
		pid := c.nodes[i].cmd.Process.Pid
		if !await(c.t.Context(), 10*time.Second, func() bool { return standsStill(pid) }) {
			c.t.Fatalf("nats-server %d does not stand still", i)
		}
	}
	for _, i := range nodes {
		if err := os.RemoveAll(c.synced(i)); err != nil {
			c.t.Fatal(err)
		}
		if err := os.CopyFS(c.synced(i), os.DirFS(c.store(i))); err != nil {
			c.t.Fatal(err)
		}
	}
}

// synced is the copy that a server has left after a power cut.
func (c *cluster) synced(i int) string { return c.store(i) + "-synced" }

// fallBack kills servers, restores their directories from keepSynced, and starts them again.
func (c *cluster) fallBack(nodes ...int) {
	c.t.Helper()
	for _, i := range nodes {
		c.kill(i)
	}
	for _, i := range nodes {
		if err := os.RemoveAll(c.store(i)); err != nil {
			c.t.Fatal(err)
		}
		if err := os.Rename(c.synced(i), c.store(i)); err != nil {
			c.t.Fatal(err)
		}
	}
	for _, i := range nodes {
		c.start(i)
	}
}

func standsStill(pid int) bool {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(stats) == 0 {
		return false
	}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			return false
		}
		_, state, _ := strings.Cut(string(text), ") ") // after the name, which may contain any character
		if !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return true
}

// current waits until every server reports that all of its streams and consumers exist and have
// caught up.
func (r *rig) current() {
	r.t.Helper()
	for i := range servers {
		if !await(r.ctx, patience, func() bool { return r.nats.healthy(r.ctx, i) }) {
			r.t.Fatalf("nats-server %d has not caught up after %s; logs in %s", i, patience, r.dir)
		}
	}
}

// healthy asks a server whether all that it stores is current.
func (c *cluster) healthy(ctx context.Context, i int) bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/healthz", c.ports[i][2]), nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}
