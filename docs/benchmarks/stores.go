// The stores' servers: PostgreSQL, Redis and NATS, each in a directory and on a port of its
// own on 127.0.0.1, started for one measurement and ended behind it.

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// server is a store's server that runs.
type server struct {
	process *process
	url     string
	end     os.Signal // that ends it
}

func (s *server) stop() error { return s.process.stop(s.end) }

// startWithin is how long a server may take to answer.
const startWithin = 30 * time.Second

// freePort is one that no program listens on at the moment.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// startServer starts the server of a contender.
func (r *rig) startServer(ctx context.Context, c contender) (*server, error) {
	dir, err := os.MkdirTemp(r.dir, c.server+"-*")
	if err != nil {
		return nil, err
	}
	switch c.server {
	case "postgres":
		return r.startPostgres(ctx, dir)
	case "redis-everysec":
		return r.startRedis(ctx, dir, "everysec")
	case "redis-always":
		return r.startRedis(ctx, dir, "always")
	case "nats":
		return r.startNATS(dir, false)
	case "nats-sync":
		return r.startNATS(dir, true)
	case "temporal":
		return r.startTemporal(ctx, dir)
	}
	return nil, fmt.Errorf("no server is called %q", c.server)
}

// startPostgres makes a cluster with the settings that initdb gives: fsync and
// synchronous_commit are on.
func (r *rig) startPostgres(ctx context.Context, dir string) (*server, error) {
	owner, err := postgresOwner(dir)
	if err != nil {
		return nil, err
	}
	initdb := exec.CommandContext(ctx, filepath.Join(r.postgres, "initdb"), "-D", filepath.Join(dir, "data"), "-U", "peers", "-A", "trust", "-E", "UTF8", "--no-locale")
	initdb.SysProcAttr, initdb.Dir = &syscall.SysProcAttr{Credential: owner}, dir
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	p, err := spawn(r.dir, "postgres", owner, filepath.Join(r.postgres, "postgres"), "-D", filepath.Join(dir, "data"),
		"-p", strconv.Itoa(port), "-k", dir, "-c", "listen_addresses=127.0.0.1")
	if err != nil {
		return nil, err
	}
	s := &server{process: p, url: fmt.Sprintf("postgres://peers@127.0.0.1:%d/postgres?sslmode=disable", port), end: os.Interrupt}
	return s, s.await(ctx, func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, s.url)
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	})
}

// postgresOwner is the user that PostgreSQL runs as: it refuses to run as root, so that its
// package's user gets the directory.
func postgresOwner(dir string) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, os.Chown(dir, int(uid), int(gid))
}

// startRedis keeps an append-only file and no snapshots.
func (r *rig) startRedis(ctx context.Context, dir, fsync string) (*server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	p, err := spawn(r.dir, "redis", nil, r.redis, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", dir,
		"--save", "", "--appendonly", "yes", "--appendfsync", fsync, "--daemonize", "no")
	if err != nil {
		return nil, err
	}
	s := &server{process: p, url: fmt.Sprintf("127.0.0.1:%d", port), end: syscall.SIGTERM}
	return s, s.await(ctx, func(ctx context.Context) error {
		c := redis.NewClient(&redis.Options{Addr: s.url})
		defer func() { _ = c.Close() }()
		return c.Ping(ctx).Err()
	})
}

// startNATS runs the server of the module's nats-server in a process of its own.
func (r *rig) startNATS(dir string, syncAlways bool) (*server, error) {
	p, err := spawn(r.dir, "nats", nil, r.self, "nats", "-dir", dir, "-sync-always="+strconv.FormatBool(syncAlways))
	if err != nil {
		return nil, err
	}
	var line struct {
		URL string `json:"url"`
	}
	if err := p.answer(startWithin, &line); err != nil {
		return nil, errors.Join(err, p.stop(syscall.SIGKILL))
	}
	return &server{process: p, url: line.URL, end: syscall.SIGTERM}, nil
}

// startTemporal runs the development server of Temporal's command line on a file.
func (r *rig) startTemporal(ctx context.Context, dir string) (*server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	p, err := spawn(r.dir, "temporal", nil, r.temporal, "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", strconv.Itoa(port),
		"--db-filename", filepath.Join(dir, "temporal.db"), "--log-level", "never", "--sqlite-pragma", "journal_mode=WAL")
	if err != nil {
		return nil, err
	}
	s := &server{process: p, url: fmt.Sprintf("127.0.0.1:%d", port), end: syscall.SIGTERM}
	return s, s.await(ctx, func(ctx context.Context) error {
		t, err := openTemporal(ctx, s.url)
		if err != nil {
			return err
		}
		defer t.close()
		_, err = t.done(ctx) // the namespace is there, too
		return err
	})
}

// await asks until the server answers; one that does not is ended.
func (s *server) await(ctx context.Context, ask func(context.Context) error) error {
	err := poll(ctx, startWithin, 50*time.Millisecond, func() (bool, error) {
		select {
		case <-s.process.ended:
			return false, fmt.Errorf("%s has ended: its log says why", s.process.name)
		default:
		}
		return ask(ctx) == nil, nil
	})
	if err != nil {
		s.process.kill()
	}
	return err
}

// errTooLong is what poll ends with when it has asked long enough.
var errTooLong = errors.New("it took too long")

// poll asks until the answer is yes.
func poll(ctx context.Context, within, every time.Duration, ask func() (bool, error)) error {
	deadline := time.After(within)
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		yes, err := ask()
		if yes || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-deadline:
			return fmt.Errorf("after %s: %w", within, errTooLong)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
