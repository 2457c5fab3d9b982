// Access to an account's events stream for the ledger commands, with or without a
// running `perennial run`.

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/sirupsen/logrus"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/cmd/perennial/internal/datadir"
	"perennial/ledger"
	"perennial/ledger/files"
	"perennial/queue"
	"perennial/queue/embedded"
	"perennial/queue/events"
)

// errNoStore marks a data directory that no `perennial run` has made yet.
var errNoStore = errors.New("there are no events")

// history is an account's events stream, with or without a running `run`.
type history struct {
	queue    *queue.Queue
	account  string
	embedded *embedded.Server
	unlock   func() error
	// confirm is an error when another runner may have the account; alone sets it.
	confirm func(context.Context) error
}

// openHistory connects to where the account's events are: --nats, the NATS of
// the configuration, the embedded server of a running `run`, or the store that
// one left in the data directory, served for as long as it is read.
func (a *app) openHistory(c *config.Config, account string) (h *history, err error) {
	h = &history{account: account}
	defer h.closeOn(&err)
	external := a.externalNATS(c)
	if !external {
		if _, err := os.Stat(c.DataDir); errors.Is(err, fs.ErrNotExist) {
			return nil, &exitError{ExitUnreachable, fmt.Errorf("%w: nothing has run in %s\nstart `perennial run` there, or use --nats nats://host:port", errNoStore, c.DataDir)}
		} else if err != nil {
			return nil, fmt.Errorf("the embedded NATS store: %w", err)
		}
		h.unlock, err = lockData(c, account)
		if err != nil && !errors.Is(err, datadir.ErrLocked) {
			return nil, err
		}
		external = err != nil // `perennial run` works there and serves it
	}
	err = h.open(c, a, external)
	return h, err
}

// openHistoryLocked is openHistory for a caller that has the data directory's lock.
func (a *app) openHistoryLocked(c *config.Config, account string) (h *history, err error) {
	h = &history{account: account}
	defer h.closeOn(&err)
	err = h.open(c, a, a.externalNATS(c))
	return h, err
}

func (a *app) externalNATS(c *config.Config) bool {
	return a.natsURL != "" || c.NATS.External()
}

// open connects to a server, or serves the store of the data directory.
func (h *history) open(c *config.Config, a *app, external bool) error {
	if !external {
		return h.serve(c, a)
	}
	remote, err := a.connect()
	if err != nil {
		return err
	}
	h.queue = remote.Queue
	return nil
}

// closeOn closes a history that could not be opened.
func (h *history) closeOn(err *error) {
	if *err != nil {
		h.close()
	}
}

// locked runs do for the account that --account names, while no other process has the
// data directory.
func (a ledgerCommands) locked(do func(c *config.Config, account string) error) (err error) {
	c, account, err := a.configured()
	if err != nil {
		return err
	}
	unlock, err := lockData(c, account)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	return do(c, account)
}

// lockData takes the lock of the data directory for a command that writes there. Another
// user than the runner's is refused: the runner could not read what it leaves.
func lockData(c *config.Config, account string) (unlock func() error, err error) {
	anothers := notAnothers(os.Geteuid(), c.LedgerPath(account), filepath.Join(c.DataDir, "nats"), c.DataDir)
	if anothers != nil && !config.Exists(filepath.Join(c.DataDir, datadir.LockName)) {
		return nil, anothers
	}
	lock, err := datadir.Acquire(c.DataDir)
	if err != nil {
		return nil, err
	}
	if anothers != nil {
		return nil, errors.Join(anothers, lock.Unlock())
	}
	return lock.Unlock, nil
}

// notAnothers refuses a user whom the first of the paths that exist does not belong to.
func notAnothers(self int, paths ...string) error {
	for _, path := range paths {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		owner, _ := files.Owner(info)
		if owner == self {
			return nil
		}
		return usage("%s belongs to %s, who could not read what %s writes there; nothing was changed\nrun: sudo -u '%s' %s",
			path, userName(owner), userName(self), userName(owner), strings.Join(os.Args, " "))
	}
	return nil
}

// userName is a user as sudo takes it.
func userName(id int) string {
	if u, err := user.LookupId(strconv.Itoa(id)); err == nil {
		return u.Username
	}
	return "#" + strconv.Itoa(id)
}

// serve starts the embedded server on the data directory's store. A password
// that is stored nowhere keeps other clients out.
func (h *history) serve(c *config.Config, a *app) (err error) {
	h.embedded, err = embedded.Start(embedded.Config{
		Listen: "127.0.0.1:0", StoreDir: filepath.Join(c.DataDir, "nats"),
		Closed: true, Log: a.logger(),
	})
	if err != nil {
		return err
	}
	h.queue, err = queue.Connect(queue.ConnectConfig{Embedded: h.embedded, Log: a.logger()})
	return err
}

// events yields what the stream holds from a journal sequence on. An outbox's
// message has the sequence of its row.
func (h *history) events(ctx context.Context, first int64) iter.Seq2[[]byte, error] {
	return daemon.Bodies(events.Of(h.queue.JetStream(), h.account).History(ctx, uint64(max(first, 1))))
}

// writes is the account's ledger for a caller that is alone with it.
func (h *history) writes(path string, log *logrus.Logger) *daemon.Alone {
	x := &daemon.Alone{Path: path, Account: h.account, Log: log.WithField("account", h.account)}
	if h.embedded == nil {
		x.Queue = h.queue
	}
	return x
}

// publishOwn publishes what the ledger holds beyond the events stream, while no other
// runner can append to it. On the embedded server the next run does.
func (h *history) publishOwn(ctx context.Context, path string, log *logrus.Logger) error {
	if h.embedded != nil {
		return nil
	}
	x := h.writes(path, log)
	if _, err := x.Open(ctx); err != nil {
		return err
	}
	return x.Close()
}

// flush has the embedded server write what it holds in memory of the events: it
// acknowledges them before, and a stop in good order is what writes them. Another
// server is as durable as it is configured.
func (h *history) flush(log *logrus.Logger) (err error) {
	if h.embedded == nil {
		return nil
	}
	h.queue.Close() // what it asks while the server is away would not be answered
	if err := h.embedded.Restart(); err != nil {
		return err
	}
	h.queue, err = queue.Connect(queue.ConnectConfig{Embedded: h.embedded, Log: log})
	return err
}

// snapshot is what a restore begins with; see daemon.VouchedSnapshot.
func (h *history) snapshot(ctx context.Context) (*ledger.Snapshot, func() (io.ReadCloser, error), error) {
	return daemon.VouchedSnapshot(ctx, h.queue, h.account)
}

func (h *history) close() {
	if h.queue != nil {
		h.queue.Close()
	}
	if h.embedded != nil {
		h.embedded.Shutdown()
	}
	if h.unlock != nil {
		_ = h.unlock()
	}
}
