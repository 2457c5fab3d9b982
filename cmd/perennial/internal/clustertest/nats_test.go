//go:build check

// Three real nats-server processes form one cluster. Clients and routes reach a server only through
// doors, so that a test can cut each connection.

package clustertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"perennial/queue/freeport"
)

const servers = 3

// natsServer returns a command that runs a real nats-server with a configuration file. TestMain
// makes this test binary act as the server.
func natsServer(ctx context.Context, dir, config string) *exec.Cmd {
	cmd := program(ctx, dir, "-c", config)
	cmd.Env = append(cmd.Env, execVariable+"="+execNATS)
	return cmd
}

// cluster is the three servers. Each client has its own doors, see clientDoors.
type cluster struct {
	t       *testing.T
	dir     string
	nodes   [servers]*process
	ports   [servers][3]int         // of clients, of routes and of monitoring
	routes  [servers][servers]*door // from, to
	clients [][servers]*door
}

func newCluster(t *testing.T, dir string) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: dir}
	for i := range servers {
		for j := range servers {
			if i != j {
				c.routes[i][j] = newDoor(t)
			}
		}
	}
	for i := range servers {
		c.choosePorts(i)
	}
	for i := range servers {
		c.start(i)
	}
	t.Cleanup(func() {
		for i := range servers {
			c.kill(i)
		}
	})
	return c
}

// clientDoors creates doors to the servers for one client, and returns them with the client's URL.
func (c *cluster) clientDoors() (doors [servers]*door, url string) {
	var urls []string
	for i := range servers {
		doors[i] = newDoor(c.t)
		doors[i].to(fmt.Sprintf("127.0.0.1:%d", c.ports[i][0]))
		urls = append(urls, "nats://"+doors[i].address())
	}
	c.clients = append(c.clients, doors)
	return doors, strings.Join(urls, ",")
}

func (c *cluster) store(i int) string { return filepath.Join(c.dir, fmt.Sprintf("nats-%d", i)) }

func (c *cluster) choosePorts(i int) {
	c.t.Helper()
	for k := range c.ports[i] {
		var err error
		if c.ports[i][k], err = freeport.Loopback(); err != nil {
			c.t.Fatal(err)
		}
	}
	for from := range servers {
		if from != i {
			c.routes[from][i].to(fmt.Sprintf("127.0.0.1:%d", c.ports[i][1]))
		}
	}
	for _, doors := range c.clients {
		doors[i].to(fmt.Sprintf("127.0.0.1:%d", c.ports[i][0]))
	}
}

// configure writes the server's file. It advertises no other server to clients, and an unused
// address to the other servers. Otherwise both would bypass the doors.
func (c *cluster) configure(i int) string {
	c.t.Helper()
	var routes []string
	for j := range servers {
		if j != i {
			routes = append(routes, fmt.Sprintf("%q", "nats://"+c.routes[i][j].address()))
		}
	}
	path := filepath.Join(c.dir, fmt.Sprintf("nats-%d.conf", i))
	text := fmt.Sprintf("server_name: n%d\nlisten: \"127.0.0.1:%d\"\nhttp: \"127.0.0.1:%d\"\njetstream {store_dir: %q}\n"+
		"cluster {name: test, listen: \"127.0.0.1:%d\", no_advertise: true, advertise: \"127.0.0.1:1\", routes: [%s]}\n",
		i, c.ports[i][0], c.ports[i][2], c.store(i), c.ports[i][1], strings.Join(routes, ", "))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// start starts a stopped server and waits until it listens. If another process took a port, start
// chooses new ports.
func (c *cluster) start(i int) {
	c.t.Helper()
	for range 5 {
		before := len(c.log(i))
		p, err := spawn(natsServer(context.Background(), c.dir, c.configure(i)), filepath.Join(c.dir, fmt.Sprintf("nats-%d.log", i)))
		if err != nil {
			c.t.Fatal(err)
		}
		c.nodes[i] = p
		listens := await(c.t.Context(), 20*time.Second, func() bool { return !p.running() || c.listens(i, before) })
		if listens && p.running() {
			return
		}
		p.kill()
		c.choosePorts(i)
	}
	c.t.Fatalf("nats-server %d does not start; log %s", i, filepath.Join(c.dir, fmt.Sprintf("nats-%d.log", i)))
}

// listens reports whether the server has logged, after the first before bytes of its log, that it
// listens. The port alone is no proof, because another process may listen there.
func (c *cluster) listens(i, before int) bool {
	return strings.Contains(c.log(i)[before:], "Listening for client connections on")
}

// log returns the server's log over all of its starts.
func (c *cluster) log(i int) string {
	text, err := os.ReadFile(filepath.Join(c.dir, fmt.Sprintf("nats-%d.log", i)))
	if err != nil && !os.IsNotExist(err) {
		c.t.Fatal(err)
	}
	return string(text)
}

func (c *cluster) kill(i int) {
	if c.nodes[i] != nil {
		c.nodes[i].kill()
	}
}

// isolate cuts a server off from the others, or connects it again.
func (c *cluster) isolate(i int, m mode) {
	for j := range servers {
		if j != i {
			c.routes[i][j].set(m)
			c.routes[j][i].set(m)
		}
	}
}
