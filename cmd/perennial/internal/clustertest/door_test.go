//go:build check

// Doors are forwarding proxies between the processes of the rig. A door can be cut, made deaf, or
// closed to one process.

package clustertest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

type mode int

const (
	open mode = iota
	cut       // nothing passes; connections are closed
	deaf      // the server's answers are dropped
)

type door struct {
	listener net.Listener
	delay    time.Duration // before each part of an answer

	mu     sync.Mutex
	pids   []int // processes whose connections the door recognises
	target string
	mode   mode
	barred int // process that may not pass, 0 for none
	pairs  map[*pair]bool
	posts  map[int][]time.Time // when a process sent an HTTP POST
}

// pair is a client's connection and the matching connection to the server.
type pair struct {
	client, server net.Conn
	pid            int
}

func (p *pair) close() {
	_ = p.client.Close()
	_ = p.server.Close()
}

func newDoor(t *testing.T) *door {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &door{listener: l, pairs: map[*pair]bool{}, posts: map[int][]time.Time{}}
	go d.accept()
	t.Cleanup(func() {
		_ = l.Close()
		d.set(cut)
	})
	return d
}

func (d *door) address() string { return d.listener.Addr().String() }

// set changes the mode and closes all connections. It keeps them for deaf, because a client must
// lose answers in the middle of a connection.
func (d *door) set(m mode) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mode = m
	if m != deaf {
		d.closePairs(func(*pair) bool { return true })
	}
}

// bar keeps one process out, 0 for none.
func (d *door) bar(pid int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.barred = pid
	d.closePairs(func(p *pair) bool { return pid != 0 && p.pid == pid })
}

// know makes the door recognise the connections of a process.
func (d *door) know(pid int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pids = append(slices.Clone(d.pids), pid)
}

func (d *door) closePairs(which func(*pair) bool) {
	for p := range d.pairs {
		if which(p) {
			p.close()
			delete(d.pairs, p)
		}
	}
}

func (d *door) to(target string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.target = target
}

func (d *door) accept() {
	for {
		client, err := d.listener.Accept()
		if err != nil {
			return
		}
		go d.connect(client)
	}
}

func (d *door) connect(client net.Conn) {
	p := &pair{client: client}
	d.mu.Lock()
	target, pids := d.target, d.pids
	d.mu.Unlock()
	if len(pids) > 0 {
		p.pid = ownerOf(client, pids)
	}
	server, err := net.DialTimeout("tcp", target, time.Second)
	if err != nil {
		_ = client.Close()
		return
	}
	p.server = server
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mode == cut || p.pid != 0 && p.pid == d.barred {
		p.close()
		return
	}
	d.pairs[p] = true
	go d.forward(p, false)
	go d.forward(p, true)
}

func (d *door) forward(p *pair, answers bool) {
	from, to := p.client, p.server
	if answers {
		from, to = p.server, p.client
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && d.passes(p, answers, buf[:n]) {
			if _, e := to.Write(buf[:n]); e != nil {
				err = e
			}
		}
		if err != nil {
			break
		}
	}
	p.close()
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.pairs, p)
}

// passes reports whether bytes may pass, and records the POSTs among them.
func (d *door) passes(p *pair, answers bool, data []byte) bool {
	if answers && d.delay > 0 {
		<-time.After(d.delay) // a slow provider
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !answers && p.pid != 0 && bytes.HasPrefix(data, []byte("POST ")) {
		d.posts[p.pid] = append(d.posts[p.pid], time.Now())
	}
	return !answers || d.mode != deaf
}

// postOf returns the first POST of any of these processes after an instant.
func (d *door) postOf(pids []int, after time.Time) (at time.Time, pid int, found bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range pids {
		for _, when := range d.posts[id] {
			if when.After(after) && (!found || when.Before(at)) {
				at, pid, found = when, id, true
			}
		}
	}
	return at, pid, found
}

// ownerOf returns which of the processes has the other end of a connection, 0 for none. All runners
// share one door, because their ledgers record the base_url.
func ownerOf(conn net.Conn, pids []int) int {
	remote, _ := conn.RemoteAddr().(*net.TCPAddr)
	local, _ := conn.LocalAddr().(*net.TCPAddr)
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil || remote == nil || local == nil {
		return 0
	}
	want := []string{fmt.Sprintf(":%04X", remote.Port), fmt.Sprintf(":%04X", local.Port)}
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) < 10 || !strings.HasSuffix(f[1], want[0]) || !strings.HasSuffix(f[2], want[1]) {
			continue
		}
		for _, pid := range pids {
			if hasSocket(pid, f[9]) {
				return pid
			}
		}
	}
	return 0
}

func hasSocket(pid int, inode string) bool {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && to == "socket:["+inode+"]" {
			return true
		}
	}
	return false
}
