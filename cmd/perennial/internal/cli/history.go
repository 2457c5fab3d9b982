// Access to an account's events stream for the ledger commands, whether or not a runner is
// running.

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
	"perennial/cmd/perennial/internal/datadir"
	"perennial/cmd/perennial/internal/journal"
	"perennial/ledger"
	"perennial/ledger/files"
	"perennial/queue"
	"perennial/queue/embedded"
	"perennial/queue/events"
)

// errNoStore means that no `perennial run` has started in the data directory yet.
var errNoStore = errors.New("there are no events")

// history is a connection to an account's events stream.
type history struct {
	queue    *queue.Queue
	account  string
	embedded *embedded.Server
	unlock   func() error
	// confirm returns an error if another runner may lead the account. alone and borrow set it.
	confirm func(context.Context) error
}

// openHistory connects to the server that has the account's events. This is the server of
// --nats, the configured NATS, or a runner's embedded server. If no runner uses the data
// directory, openHistory starts an embedded server on its store.
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
		external = err != nil // the lock is taken, so a runner serves the store
	}
	err = h.open(c, a, external)
	return h, err
}

// openHistoryLocked is like openHistory, for a caller that already has the data directory's
// lock.
func (a *app) openHistoryLocked(c *config.Config, account string) (h *history, err error) {
	h = &history{account: account}
	defer h.closeOn(&err)
	err = h.open(c, a, a.externalNATS(c))
	return h, err
}

func (a *app) externalNATS(c *config.Config) bool {
	return a.natsURL != "" || c.NATS.External()
}

// open connects to an external server, or starts a server on the store of the data
// directory.
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

// closeOn closes the history if *err is not nil.
func (h *history) closeOn(err *error) {
	if *err != nil {
		h.close()
	}
}

// locked calls do for the account that --account selects, under the lock of the data directory.
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

// lockData takes the lock of the data directory for a command that writes there. It refuses
// any user other than the runner's, because the runner could not read that user's files.
func lockData(c *config.Config, account string) (unlock func() error, err error) {
	anothers := checkOwner(os.Geteuid(), c.LedgerPath(account), filepath.Join(c.DataDir, "nats"), c.DataDir)
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

// checkOwner returns an error if self, a user id, does not own the first path that exists.
func checkOwner(self int, paths ...string) error {
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

// userName returns the name of a system user, or # and its id, as sudo accepts it.
func userName(id int) string {
	if u, err := user.LookupId(strconv.Itoa(id)); err == nil {
		return u.Username
	}
	return "#" + strconv.Itoa(id)
}

// serve starts the embedded server on the store of the data directory. Other clients cannot
// connect, because the server requires a password that only this process knows.
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

// events yields the bodies of the events, beginning with the journal row first. An event has
// the same sequence as its row.
func (h *history) events(ctx context.Context, first int64) iter.Seq2[[]byte, error] {
	return journal.Bodies(events.Of(h.queue.JetStream(), h.account).History(ctx, uint64(max(first, 1))))
}

// writes returns the account's ledger for writing. The caller must have exclusive use of the
// account.
func (h *history) writes(path string) *journal.Alone {
	x := &journal.Alone{Path: path, Account: h.account}
	if h.embedded == nil {
		x.Queue = h.queue
	}
	return x
}

// publishOwn publishes the ledger's rows that the events stream lacks. The caller must have
// exclusive use of the account. With the embedded server, publishOwn does nothing, because the
// next run publishes the rows.
func (h *history) publishOwn(ctx context.Context, path string) error {
	if h.embedded != nil {
		return nil
	}
	x := h.writes(path)
	if _, err := x.Open(ctx); err != nil {
		return err
	}
	return x.Close()
}

// flush restarts the embedded server. The server acknowledges events before they are on
// disk, and an orderly stop writes them there. For an external server, flush does nothing,
// because the server's configuration determines how durable its writes are.
func (h *history) flush(log *logrus.Logger) (err error) {
	if h.embedded == nil {
		return nil
	}
	h.queue.Close() // requests during the restart would get no response
	if err := h.embedded.Restart(); err != nil {
		return err
	}
	h.queue, err = queue.Connect(queue.ConnectConfig{Embedded: h.embedded, Log: log})
	return err
}

// snapshot returns the snapshot that a restore begins with (journal.VouchedSnapshot).
func (h *history) snapshot(ctx context.Context) (*ledger.Snapshot, func() (io.ReadCloser, error), error) {
	return journal.VouchedSnapshot(ctx, h.queue, h.account)
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
