package cluster

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"perennial/cmd/perennial/internal/placement"
	"perennial/queue"
	"perennial/queue/nodes"
)

// LateAfter is the maximum age of a runner's last heartbeat. A runner with an older heartbeat
// gets no more accounts. LateAfter exceeds [Heartbeat], because a heartbeat may be a little
// late.
const LateAfter = Heartbeat + 2*time.Second

// Peers stores the last heartbeat of each runner in the configuration. It is safe for
// concurrent use.
type Peers struct {
	mu    sync.Mutex
	heard map[string]heardNode // the key is the runner's name
	pins  map[string]string    // nodes to which operators have pinned accounts, by account
	echo  echo
	other string // last message about runners with other settings
}

// heardNode is a runner's last heartbeat. first and last are times of this machine, because the
// clocks of machines may differ.
type heardNode struct {
	Node
	first time.Time // when the first heartbeat after the runner's start arrived
	last  time.Time // when the heartbeat arrived
}

// Note stores the last heartbeats of all runners. If the message of [OtherSettings] has changed,
// it returns the message. Otherwise it returns "".
func (p *Peers) Note(all []Node, now time.Time) (other string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	heard := make(map[string]heardNode, len(all))
	for _, n := range all {
		x := heardNode{Node: n, first: now, last: now}
		if before, known := p.heard[n.Node]; known {
			if before.StartedAt.Equal(n.StartedAt) {
				x.first = before.first
			}
			if before.SaidAt.Equal(n.SaidAt) {
				x.last = before.last
			}
		}
		heard[n.Node] = x
	}
	p.heard = heard
	was := p.other
	p.other = strings.Join(OtherSettings(slices.DeleteFunc(slices.Clone(all), func(n Node) bool { return !heard[n.Node].lives(now) })), "; ")
	if p.other == was {
		return ""
	}
	return p.other
}

// SetPins stores the pins of operators. pins maps an account to a node.
func (p *Peers) SetPins(pins map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pins = pins
}

// assigned returns the assigned node of each account, by account. A CLI command that borrows
// an account overrides an operator's pin. The caller must hold mu.
func (p *Peers) assigned(now time.Time) map[string]string {
	given := make(map[string]string, len(p.pins))
	maps.Copy(given, p.pins)
	for name, n := range p.heard {
		for _, x := range n.Accounts {
			if x.Borrows && n.lives(now) {
				given[x.Account] = name
			}
		}
	}
	return given
}

// lives reports whether a runner may get accounts.
func (n heardNode) lives(now time.Time) bool { return !n.Stopping && now.Sub(n.last) < LateAfter }

// others yields the live runners that serve an account, without self. It holds mu during the
// iteration.
func (p *Peers) others(account, self string, now time.Time) iter.Seq2[string, NodeAccount] {
	return func(yield func(string, NodeAccount) bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		for name, n := range p.heard {
			i := slices.IndexFunc(n.Accounts, func(x NodeAccount) bool { return x.Account == account })
			if name != self && i >= 0 && n.lives(now) && !yield(name, n.Accounts[i]) {
				return
			}
		}
	}
}

// Holder returns another live runner that has an account's lease. It returns "" if there is
// none.
func (p *Peers) Holder(account, self string, now time.Time) string {
	for name, x := range p.others(account, self, now) {
		if x.Lease {
			return name
		}
	}
	return ""
}

// Leaves reports whether a runner other than own should lead an account whose lease is free. If
// a runner's heartbeat still contains the lease, the runner does not count as the leader,
// because it has released or lost the lease.
func (p *Peers) Leaves(own placement.Node, account string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	to := p.place(own, account, now)[account]
	return to != "" && to != own.Name
}

// place returns the placement of all accounts on own and the other live runners. It treats the
// account free as if no runner led it. free is "" if there is no such account. The caller must
// hold mu.
func (p *Peers) place(own placement.Node, free string, now time.Time) map[string]string {
	nodes := []placement.Node{own}
	for name, n := range p.heard {
		if name != own.Name && n.lives(now) {
			nodes = append(nodes, n.placed())
		}
	}
	var accounts []string
	for i := range nodes {
		nodes[i].Holds = slices.DeleteFunc(slices.Clone(nodes[i].Holds), func(a string) bool { return a == free })
		accounts = slices.Concat(accounts, nodes[i].Holds, nodes[i].Ready)
	}
	return placement.Of(nodes, accounts, p.assigned(now))
}

func (n heardNode) placed() placement.Node {
	out := placement.Node{Name: n.Node.Node}
	for _, x := range n.Accounts {
		switch {
		case x.Lease:
			out.Holds = append(out.Holds, x.Account)
		case x.Ready:
			out.Ready = append(out.Ready, x.Account)
		}
	}
	return out
}

// Wishes returns the accounts of own that other runners should lead. held maps each account
// that own leads to the time when own began to lead it.
func (p *Peers) Wishes(own placement.Node, held map[string]time.Time, now time.Time) (all []Wish) {
	p.mu.Lock()
	defer p.mu.Unlock()
	placed, assigned := p.place(own, "", now), p.assigned(now)
	for account, since := range held {
		to := placed[account]
		if to == "" || to == own.Name {
			continue
		}
		n := p.heard[to] // live, because place considers only live runners
		all = append(all, Wish{
			account: account, to: to, pinned: assigned[account] == to, held: since, firstHeard: n.first, ready: slices.Contains(n.placed().Ready, account),
		})
	}
	return all
}

// Longest returns which other live runner has the newest row of an account, and the number of
// this row. It returns "" if no other runner has rows.
func (p *Peers) Longest(account, self string, now time.Time) (name string, row int64) {
	for other, x := range p.others(account, self, now) {
		if x.Head > row {
			name, row = other, x.Head
		}
	}
	return name, row
}

// echo tracks whether this runner receives its own heartbeats. If it does, it also receives the
// heartbeats of the other runners.
type echo struct {
	since time.Time // arrival of the first heartbeat; reset by a gap or a new connection
	last  time.Time // arrival of the newest heartbeat
}

// NoteSelf records that this runner's own heartbeat arrived now. It ignores a heartbeat that
// arrived earlier, or that was sent before connected, the start of the current connection.
func (p *Peers) NoteSelf(self string, connected, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	own, known := p.heard[self]
	if !known || !own.last.Equal(now) || own.SaidAt.Before(connected) {
		return
	}
	if p.echo.since.Before(connected) || now.Sub(p.echo.last) >= LateAfter {
		p.echo.since = now
	}
	p.echo.last = now
}

// HeardSince returns the time since which this runner has received all heartbeats without a gap.
// It considers only the current connection. It returns the zero time during a gap.
func (p *Peers) HeardSince(connected, now time.Time) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.echo.since.Before(connected) || now.Sub(p.echo.last) >= LateAfter {
		return time.Time{}
	}
	return p.echo.since
}

// Ready reports whether another live standby could lead the account.
func (p *Peers) Ready(account, self string, now time.Time) bool {
	for _, x := range p.others(account, self, now) {
		if x.Ready && !x.Lease {
			return true
		}
	}
	return false
}

// Followers returns the number of live standbys of an account, including self, and at least 1.
func (p *Peers) Followers(account, self string, now time.Time) int {
	others := 0 // equals the number of standbys, because either self or one of the others leads
	for _, x := range p.others(account, self, now) {
		if !x.Borrows {
			others++
		}
	}
	return max(others, 1)
}

// Node is a runner of the configuration, as `runners -o json` prints it.
type Node struct {
	Node      string        `json:"node"`
	Holder    string        `json:"holder,omitempty"` // name under which the runner holds leases
	Version   string        `json:"version"`
	StartedAt time.Time     `json:"started_at"`
	SaidAt    time.Time     `json:"said_at"`
	Address   string        `json:"address,omitempty"`   // address of the runner's machine, as an external NATS server sees it
	HTTPPort  int           `json:"http_port,omitempty"` // port of /readyz and the web UI; 0 for a command that borrows an account
	Stopping  bool          `json:"stopping,omitempty"`  // whether the runner is draining and takes no account
	Accounts  []NodeAccount `json:"accounts"`
}

// NodeAccount is the state of one account on a runner.
type NodeAccount struct {
	Account string `json:"account"`
	Role    string `json:"role"` // active or standby
	Head    int64  `json:"head"` // newest row of the runner's ledger
	Lag     uint64 `json:"lag"`  // rows of the events stream that a standby's ledger does not have yet
	// Lease means that the runner has the account's lease. A runner gets the lease before it
	// becomes active, and keeps the lease until it has drained.
	Lease bool `json:"lease"`
	Ready bool `json:"ready"` // whether the leader works, or the standby could lead the account immediately
	// Borrows means that the sender is a CLI command that asks for the account or has it.
	Borrows bool `json:"borrows,omitempty"`
	// Settings is a hash of the account's settings and schedules; see
	// [config.Config.SettingsOf].
	Settings string `json:"settings,omitempty"`
}

// Roles of a runner for an account.
const (
	RoleActive  = "active"
	RoleStandby = "standby"
)

// LeaseTTL is how long a dead runner keeps its lease on an external NATS.
const LeaseTTL = 10 * time.Second

// Nodes returns the live runners, sorted by name.
func Nodes(ctx context.Context, q *queue.Queue) ([]Node, error) {
	said, err := nodes.All(ctx, q.JetStream())
	if err != nil {
		return nil, err
	}
	all, err := NodesSaid(said)
	if len(all) > 0 {
		err = nil // the others can be read
	}
	return all, err
}

// NodesSaid decodes heartbeats and returns the runners, sorted by name. It omits a heartbeat that
// it cannot read, for example from a later version. unreadable is the error of the last omitted
// heartbeat.
func NodesSaid(said [][]byte) (all []Node, unreadable error) {
	all = make([]Node, 0, len(said))
	for _, text := range said {
		var n Node
		if err := json.Unmarshal(text, &n); err != nil {
			unreadable = fmt.Errorf("what a runner says of itself cannot be read: %w", err)
			continue
		}
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b Node) int { return cmp.Compare(a.Node, b.Node) })
	return all, unreadable
}

// OtherSettings returns one message for each account on which runners differ in settings or
// schedules. It compares the runners with the leader, or with the first runner if no runner
// leads. A handover between such runners would change what is renewed. Runners of different
// versions are not compared, because their settings have different fields.
func OtherSettings(nodes []Node) (lines []string) {
	type claim struct{ node, version, settings string }
	first, others := map[string]claim{}, map[string][]string{}
	for _, active := range []bool{true, false} { // leaders come first
		for _, n := range nodes {
			for _, x := range n.Accounts {
				is, known := first[x.Account]
				switch {
				case (x.Role == RoleActive) != active || x.Settings == "":
				case !known:
					first[x.Account] = claim{n.Node, n.Version, x.Settings}
				case n.Version == is.version && x.Settings != is.settings:
					others[x.Account] = append(others[x.Account], n.Node)
				}
			}
		}
	}
	for _, account := range slices.Sorted(maps.Keys(others)) {
		lines = append(lines, fmt.Sprintf("account %s: %s has other settings or schedules than %s", account, strings.Join(others[account], ", "), first[account].node))
	}
	return lines
}

// OtherSettingsAdvice is the advice for runners that [OtherSettings] reports.
const OtherSettingsAdvice = "give all runners the same accounts and schedules in perennial.yaml, and restart those that differ: a handover would change what is renewed"

// Heartbeat is the interval between two heartbeats of a runner.
const Heartbeat = nodes.NodeLife / 3

// bootID is a Linux file whose content differs for each boot of each machine.
const bootID = "/proc/sys/kernel/random/boot_id"

// NodeOf returns the node name of the runner that uses a data directory: the host name and a
// hash of the directory's path. The name survives a reboot, so an account that an operator
// pinned to the runner stays pinned.
func NodeOf(dir string) string {
	path, err := filepath.Abs(dir)
	if err != nil {
		path = dir
	}
	return hostname() + "-" + digest(path)[:8]
}

// Name is a runner's node name. If another runner uses the same node name, this runner takes the
// name of its lease holder, which is unique.
type Name struct {
	mu        sync.Mutex
	node      string
	heardSelf bool // this runner has received its own heartbeat
}

// Get returns the name.
func (n *Name) Get() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.node
}

// Set sets the initial name.
func (n *Name) Set(node string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.node = node
}

// Note checks the last heartbeats of all runners. If another runner has overwritten this
// runner's heartbeat, Note changes the name and returns true. Until this runner has received its
// own first heartbeat, Note ignores heartbeats with another holder. Such heartbeats are left
// from before the machine's last boot, and expire.
func (n *Name) Note(all []Node, holder string) (changed bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, x := range all {
		switch {
		case x.Node != n.node || x.Holder == "":
		case x.Holder == holder:
			n.heardSelf = true
		case n.heardSelf:
			n.node = holder
			return true
		}
	}
	return false
}

// HolderOf returns the lease holder name of the runner that has locked a data directory. A
// restarted process has the name of its dead predecessor, so it gets the lease without waiting
// for the lease to expire. The name depends on the boot and on the directory's inode. A copy
// of the directory or of the machine therefore has another name. If the boot or the inode
// cannot be read, the name is unique to this process.
func HolderOf(dir string) string {
	boot, err := os.ReadFile(bootID)
	place, statErr := inodeOf(dir)
	if err != nil || statErr != nil || len(bytes.TrimSpace(boot)) == 0 {
		return ProcessHolder()
	}
	return NodeOf(dir) + "-" + digest(strings.TrimSpace(string(boot)), place)[:16]
}

func digest(parts ...string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(parts, " "))))
}

// ProcessHolder returns a lease holder name that is unique to this process.
func ProcessHolder() string {
	return fmt.Sprintf("%s-%d-%08x", hostname(), os.Getpid(), rand.Uint32())
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}

func inodeOf(dir string) (string, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return "", err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", fmt.Errorf("%s has no inode", dir)
	}
	return fmt.Sprint(stat.Dev, " ", stat.Ino), nil
}
