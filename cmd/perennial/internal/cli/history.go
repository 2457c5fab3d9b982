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
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/cluster"
	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/datadir"
	"perennial/cmd/perennial/internal/journal"
	"perennial/cmd/perennial/internal/webhook"
	"perennial/ledger"
	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/failpoint"
	"perennial/ledger/files"
	"perennial/queue"
	"perennial/queue/embedded"
	"perennial/queue/events"
	"perennial/queue/lease"
	"perennial/queue/objects"
	"perennial/queue/outbox"
	"perennial/queue/positions"
	"perennial/upstream/sandbox"
)

// errNoStore means that no `perennial run` has started in the data directory yet.
var errNoStore = errors.New("there are no events")

// history is a connection to an account's events stream.
type history struct {
	queue    *queue.Queue
	account  string
	embedded *embedded.Server
	unlock   func() error
	// confirm returns an error if another runner may lead the account. The alone and borrow
	// methods set it.
	confirm func(context.Context) error
}

// openHistory connects to the server that has the account's events. This is the server of
// --nats, the configured NATS, or a runner's embedded server. If no runner uses the data
// directory, openHistory starts an embedded server on the store in this directory.
func (a *app) openHistory(c *config.Config, account string) (h *history, err error) {
	h = &history{account: account}
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
func (a *app) openHistoryLocked(c *config.Config, account string) (*history, error) {
	h := &history{account: account}
	err := h.open(c, a, a.externalNATS(c))
	return h, err
}

func (a *app) externalNATS(c *config.Config) bool {
	return a.natsURL != "" || c.NATS.External()
}

// open connects to an external server, or starts a server on the store of the data directory. No
// other client can connect to that server, because only this process knows its password.
func (h *history) open(c *config.Config, a *app, external bool) (err error) {
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	if external {
		remote, err := a.connect()
		if err == nil {
			h.queue = remote.Queue
		}
		return err
	}
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

// locked selects an account with --account and locks the data directory. It then calls the
// function do.
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

// userName returns the name of a system user. For a user without a name, it returns # and the
// id, which sudo accepts.
func userName(id int) string {
	if u, err := user.LookupId(strconv.Itoa(id)); err == nil {
		return u.Username
	}
	return "#" + strconv.Itoa(id)
}

// events yields the bodies of the events. The parameter first is the journal row of the first
// event. An event has the same sequence as its row.
func (h *history) events(ctx context.Context, first int64) iter.Seq2[[]byte, error] {
	return journal.Bodies(events.Of(h.queue.JetStream(), h.account).History(ctx, uint64(max(first, 1))))
}

// writes returns the account's ledger for a command that writes to it. The caller must have
// exclusive use of the account.
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

// flush restarts the embedded server, because the server acknowledges events before they are on
// disk. An orderly stop writes all events to disk. For an external server, flush does nothing,
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

func (a ledgerCommands) backupRestore() *cobra.Command {
	var from string
	var fromEvents, replace, without bool
	c := newCommand("restore", "Restore the ledger from a backup or from events", func(ctx context.Context, _ []string) error {
		if (from == "") != fromEvents {
			return usage("say either --from FILE, a backup, or --from-events")
		}
		if without && fromEvents {
			return usage("--without-events is for --from FILE")
		}
		return a.locked(func(c *config.Config, account string) error {
			return a.restore(ctx, c, account, from, replace, without)
		})
	})
	f := c.Flags()
	f.StringVar(&from, "from", "", "a backup file; later events are added if the stream can be reached")
	f.BoolVar(&fromEvents, "from-events", false, "rebuild the whole ledger from the events stream, without a backup")
	f.BoolVar(&without, "without-events", false, "restore although the events stream cannot be reached; events after the backup are lost")
	f.BoolVar(&replace, "replace", false, "move the current ledger aside, to <file>.replaced-<time>")
	return c
}

// restore restores the ledger. The caller has the lock of the data directory. On an external
// NATS, restore also takes the account's lease, because a runner may be on another machine.
func (a ledgerCommands) restore(ctx context.Context, c *config.Config, account, from string, replace, without bool) error {
	x := ledger.Restore{Path: c.LedgerPath(account), From: from, Clock: time.Now, AppID: sandbox.DemoSandboxAppID, Replace: replace}
	if !c.Embedded {
		x.AppID = c.Accounts[account].AppID
	}
	h, unreached := a.openHistoryLocked(c, account)
	if unreached == nil {
		defer h.close()
		release, err := h.alone(ctx, "restore")
		if err != nil {
			return err
		}
		defer release()
		switch err := h.add(ctx, &x); {
		case errors.Is(err, queue.ErrNoAccount):
			unreached = err
		case err != nil:
			return err
		}
	}
	if unreached != nil {
		if err := a.withoutEvents(x, without, unreached); err != nil {
			return err
		}
	}
	out, err := x.Run(ctx)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: a ledger is never overwritten\nuse --replace to move it aside first", err)
	}
	if err == nil && out.Proven { // otherwise an operator must decide which rows to publish
		err = h.publishOwn(ctx, x.Path)
	}
	if err != nil {
		return a.broken(err)
	}
	return a.printRestored(account, out)
}

// add adds the stream's events to a restore. If there is no backup, it also adds the snapshot
// that belongs to the stream. It returns [queue.ErrNoAccount] if the stream does not exist.
func (h *history) add(ctx context.Context, x *ledger.Restore) error {
	_, _, err := events.Of(h.queue.JetStream(), h.account).Last(ctx)
	if err != nil {
		return err
	}
	if x.From == "" {
		if x.Snapshot, x.Content, err = journal.VouchedSnapshot(ctx, h.queue, h.account); err != nil {
			return err
		}
	}
	x.Events = func(first int64) iter.Seq2[[]byte, error] { return h.events(ctx, first) }
	return nil
}

// withoutEvents returns an error if a restore without the stream may lose events that only
// the stream or the current ledger contains. asked means that the operator accepts the loss.
func (a ledgerCommands) withoutEvents(x ledger.Restore, asked bool, unreached error) error {
	if x.From == "" {
		return unreached
	}
	if x.Replace && !asked && config.Exists(x.Path) {
		return &exitError{ExitUnreachable, fmt.Errorf("the events stream cannot be reached, and %s may be newer than %s; nothing was changed: %w\n"+
			"let it be reached and say the same again, or add --without-events: what was published after the backup is lost then", x.Path, x.From, unreached)}
	}
	a.logger().WithError(unreached).Warn("the events stream cannot be reached: the ledger ends where the backup does")
	return nil
}

// alone ensures that no runner leads the account until release is called. what is the CLI
// command, for error texts.
func (h *history) alone(ctx context.Context, what string) (release func(), err error) {
	if h.embedded != nil {
		h.confirm = func(context.Context) error { return nil }
		return func() {}, nil // no lease is necessary, because the caller has the data directory's lock
	}
	taken, err := lease.New(h.queue.JetStream(), 1).TryAcquire(ctx, h.account, what+"-"+cluster.ProcessHolder(), cluster.LeaseTTL)
	if held, ok := errors.AsType[*lease.HeldError](err); ok {
		return nil, fmt.Errorf("%w: it works with the ledger\nstop that runner first, then %s again; if that runner is lost, its lease expires within ten seconds", held, what)
	}
	if err != nil {
		return nil, fmt.Errorf("account %s: make sure that no runner has it: %w", h.account, err)
	}
	h.confirm = taken.Confirm
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWithin)
		defer cancel()
		_ = taken.Release(ctx)
	}, nil
}

// releaseWithin limits the request that releases a lease. If it fails, the lease expires.
const releaseWithin = 5 * time.Second

// borrow is like alone, for a command that does not replace the ledger. A runner on another
// machine hands over the account, and leads it again after release.
func (h *history) borrow(ctx context.Context, what string) (release func(), err error) {
	if h.embedded != nil {
		return h.alone(ctx, what)
	}
	b := &cluster.Borrower{Queue: h.queue, Account: h.account, Name: what + "-" + cluster.ProcessHolder()}
	lease, giveBack, err := b.Borrow(ctx)
	if err != nil {
		return nil, fmt.Errorf("account %s: %s has to have it for itself: %w", h.account, what, err)
	}
	h.confirm = lease.Confirm
	return func() { giveBack(context.WithoutCancel(ctx)) }, nil
}

func (a ledgerCommands) printRestored(account string, out ledger.Restored) error {
	if a.output == "json" {
		return printJSON(a.stdout, out)
	}
	fmt.Fprintf(a.stdout, "account %s: restored %d rows of the backup and %d of the events stream; head %s\n",
		account, out.Rows, out.Events, out.Head)
	if out.Snapshot != nil {
		fmt.Fprintf(a.stdout, "It begins after row %d, with the snapshot that was stored beside the stream; what is before is in the archives.\n", out.Snapshot.Seq)
	}
	if out.Replaced != "" {
		fmt.Fprintf(a.stdout, "The ledger that was there is now %s\n", out.Replaced)
	}
	if !out.Proven {
		fmt.Fprintln(a.stdout, "What was published after it, if anything, is not known.")
	}
	_, err := fmt.Fprintln(a.stdout, "The account starts paused (restored) until the provider's lists hold nothing that the ledger does not know: see `perennial accounts show`.")
	return err
}

func (a ledgerCommands) backupArchive() *cobra.Command {
	var before, dir string
	var e eventsChoice
	c := newCommand("archive", "Move old rows to an archive file (runner must be stopped)", func(ctx context.Context, _ []string) error {
		at, err := dayOrInstant("--before", before)
		if err != nil {
			return err
		}
		if at.IsZero() {
			return usage("use --before DAY: facts of that day and later stay")
		}
		x := ledger.Archive{Before: at, Dir: dir, Clock: time.Now, Keep: failpoint.Size(ctx, "archive.keep", 0)}
		if err := x.Check(); err != nil { // checked before a runner is asked to hand over the account
			return err
		}
		return a.locked(func(c *config.Config, account string) error {
			return a.archive(ctx, c, account, x, e)
		})
	})
	c.Flags().StringVar(&before, "before", "", "archive rows from before this day, such as 2025-01-01 (UTC), or this time; later rows stay")
	c.Flags().StringVar(&dir, "to", "", "directory for the archive (default: the directory of the ledger, where commands still find the archived rows)")
	c.Flags().BoolVar(&e.keep, "keep-events", false, "keep every event on the events stream")
	c.Flags().StringArrayVar(&e.mayLose, "may-lose", nil, "a durable consumer of the events stream, or 'webhook NAME', that may lose events it has not acknowledged; may be repeated")
	return c
}

type eventsChoice struct {
	keep    bool
	mayLose []string
}

// ArchiveResult is the JSON output of `backup archive`.
type ArchiveResult struct {
	ledger.Archived

	Events *boundedEvents `json:"events,omitempty"`
}

// archive archives rows while no runner leads the account. Rows that the events stream lacks
// stay in the ledger, because the outbox cannot publish rows from an archive.
func (a ledgerCommands) archive(ctx context.Context, c *config.Config, account string, x ledger.Archive, e eventsChoice) error {
	h, err := a.openHistoryLocked(c, account)
	if err != nil {
		return err
	}
	defer h.close()
	release, err := h.borrow(ctx, "archive")
	if err != nil {
		return err
	}
	defer release()
	if config.Exists(c.LedgerPath(account)) { // applies the rows of runners on other machines, which must happen first
		if err := h.publishOwn(ctx, c.LedgerPath(account)); err != nil {
			return a.broken(err)
		}
	}
	last, found, err := events.Of(h.queue.JetStream(), account).Last(ctx)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("account %s: the events stream is empty, and what is not published stays in the ledger\nstart the runner and let it publish first", account)
	}
	x.Path, x.Published = c.LedgerPath(account), chain.Head{Seq: int64(last.Seq), Hash: last.Hash}
	var out ArchiveResult
	if out.Archived, err = x.Run(ctx); err != nil {
		return a.broken(err)
	}
	if e.keep {
		err = h.publishOwn(ctx, x.Path)
	} else {
		b := bounding{history: h, account: account, replicas: c.Accounts[account].Replicas, webhooks: c.WebhooksOf(account), mayLose: e.mayLose, log: a.logger()}
		if out.Events, err = b.run(ctx, x.Path); err == nil {
			out.Head = out.Events.head
		} else if out.File != "" {
			err = fmt.Errorf("the ledger is archived (rows %d to %d are in %s), and the events stream is not bounded: %w\ncorrect that, then run the same command again", out.FirstSeq, out.LastSeq, out.File, err)
		}
	}
	if err != nil {
		return a.broken(err)
	}
	return a.printArchived(account, x.Before, out)
}

func (a ledgerCommands) printArchived(account string, before time.Time, out ArchiveResult) error {
	if a.output == "json" {
		return printJSON(a.stdout, out)
	}
	if out.File == "" {
		fmt.Fprintf(a.stdout, "account %s: nothing to archive before %s\n", account, before.Format(time.RFC3339))
	} else {
		fmt.Fprintf(a.stdout, "account %s: rows %d to %d are in %s, verified; the ledger has %s instead of %s; head %s\n", account, out.FirstSeq, out.LastSeq,
			out.File, humanize.IBytes(uint64(out.BytesAfter)), humanize.IBytes(uint64(out.BytesBefore)), out.Head)
	}
	if out.HeldBy != "" {
		fmt.Fprintf(a.stdout, "Older rows stay because %s has not ended: see `perennial operations list` and `perennial reviews list`.\n", out.HeldBy)
	}
	if out.Events == nil {
		return nil
	}
	return a.printBounded(*out.Events)
}

func (a ledgerCommands) printBounded(e boundedEvents) error {
	if e.FirstSeq > e.WasFirstSeq {
		fmt.Fprintf(a.stdout, "The events stream begins with event %d instead of %d and has %s instead of %s; snapshot %s is in bucket %s.\n",
			e.FirstSeq, e.WasFirstSeq, humanize.IBytes(e.BytesAfter), humanize.IBytes(e.BytesBefore), e.Object, e.Bucket)
	}
	if e.HeldBy == "" {
		return nil
	}
	if name := events.WebhookOf(e.HeldBy); name != "" {
		_, err := fmt.Fprintf(a.stdout, "Events from %d on stay because webhook %s has not delivered them.\n"+
			"Let it deliver and say the same again; where it is not needed any more, take it out of the configuration and say `perennial webhooks remove %s`; or use --may-lose '%s'.\n", e.FirstSeq, name, name, e.HeldBy)
		return err
	}
	_, err := fmt.Fprintf(a.stdout, "Events from %d on stay because the durable consumer %s has not acknowledged them.\n"+
		"Let it read and say the same again, or remove it (`nats consumer rm %s %s`), or use --may-lose %s.\n", e.FirstSeq, e.HeldBy, e.stream, e.HeldBy, e.HeldBy)
	return err
}

// bounding removes the events of archived rows from an account's stream. First it stores a
// snapshot of the rows' effect next to the stream and reads the snapshot back. Then it appends
// and publishes a fact about the removal, and removes the events. After a crash, another run
// completes the remaining steps. Until then, or until the next start of `run`, the stream may
// refuse new events.
type bounding struct {
	history  *history
	account  string
	replicas int
	webhooks []config.Webhook // webhooks of the account
	mayLose  []string
	log      *logrus.Logger
}

type boundedEvents struct {
	FirstSeq    uint64 `json:"first_seq"`
	WasFirstSeq uint64 `json:"was_first_seq"`
	LastSeq     uint64 `json:"last_seq"`
	// HeldBy is the durable consumer or webhook that has read the fewest events. Its unread
	// events cannot be removed. HeldBy is "" if all events could be removed.
	HeldBy      string   `json:"held_by,omitempty"`
	Lost        []string `json:"lost,omitempty"` // the consumers that had not read all removed events
	Bucket      string   `json:"bucket,omitempty"`
	Object      string   `json:"object,omitempty"`
	BytesBefore uint64   `json:"bytes_before"`
	BytesAfter  uint64   `json:"bytes_after"`

	stream string
	head   chain.Head
}

// run removes from the stream the events that precede the journal's first row. No other
// process may have the ledger open.
func (b bounding) run(ctx context.Context, path string) (out *boundedEvents, err error) {
	if err := events.Of(b.history.queue.JetStream(), b.account).Open(ctx); err != nil { // the stream may still be closed, because an earlier archive was killed
		return nil, err
	}
	alone := b.history.writes(path)
	l, err := alone.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, alone.Close()) }()
	before, err := events.Of(b.history.queue.JetStream(), b.account).State(ctx)
	if err != nil {
		return nil, err
	}
	out = &boundedEvents{FirstSeq: before.First, WasFirstSeq: before.First, LastSeq: before.Last, BytesBefore: before.Bytes, stream: queue.EventsStream(b.account)}
	// A restored ledger can begin with an earlier row than the stream. A restore from the stream
	// then needs a snapshot that this ledger does not have, so the stream stays unchanged.
	if snapshot := l.Snapshot(); snapshot != nil && uint64(snapshot.Seq)+1 >= before.First {
		var first uint64
		if first, err = b.first(ctx, uint64(snapshot.Seq)+1, out); err == nil && max(first, before.First) > 1 {
			err = b.bound(ctx, l, *snapshot, first, out)
		}
	}
	if err != nil {
		return nil, err
	}
	after, err := events.Of(b.history.queue.JetStream(), b.account).State(ctx)
	if err != nil {
		return nil, err
	}
	out.FirstSeq, out.LastSeq, out.BytesAfter = after.First, after.Last, after.Bytes
	out.head.Seq, out.head.Hash, err = l.Head(ctx)
	return out, err
}

// first returns the number of the first event to keep, which is at most the parameter first. It
// keeps every event that a durable consumer has not acknowledged or a webhook has not delivered.
// It does not keep events for the consumers and webhooks in mayLose.
func (b bounding) first(ctx context.Context, first uint64, out *boundedEvents) (uint64, error) {
	unread, err := events.Of(b.history.queue.JetStream(), b.account).Unread(ctx)
	if err != nil {
		return 0, err
	}
	begun, err := positions.Of(b.history.queue.JetStream(), b.account).All(ctx)
	if err != nil {
		return 0, err
	}
	for _, w := range b.webhooks {
		if _, has := begun[w.Name]; !has && w.From == webhook.FromStart {
			unread = append(unread, events.UnreadWebhook(w.Name))
		}
	}
	may := func(u events.Unread) bool { return slices.Contains(b.mayLose, u.Consumer) }
	for _, u := range unread {
		if u.First < first && !may(u) {
			first, out.HeldBy = u.First, u.Consumer
		}
	}
	for _, u := range unread {
		if u.First < first && may(u) {
			out.Lost = append(out.Lost, u.Consumer)
		}
	}
	slices.Sort(out.Lost)
	return first, nil
}

// bound removes the events that precede the event first. Before that, it stores everything that
// replaces these events. If they are already removed, it completes the remaining steps.
func (b bounding) bound(ctx context.Context, l *ledger.Ledger, s ledger.Snapshot, first uint64, out *boundedEvents) error {
	object := objects.Snapshot{Seq: uint64(s.Seq), Hash: s.Hash, SnapshotHash: s.SnapshotHash}
	out.Bucket, out.Object = queue.SnapshotsBucket(b.account), object.Name()
	if err := b.store(ctx, l, s, object); err != nil {
		return err
	}
	failpoint.Reached(ctx, "archive.snapshot_stored")
	if err := b.appendFact(ctx, l, s, first, out); err != nil {
		return err
	}
	failpoint.Reached(ctx, "archive.bounded_noted")
	if err := b.publish(ctx, l); err != nil {
		return err
	}
	failpoint.Reached(ctx, "archive.bounded_published")
	if first > out.WasFirstSeq {
		err := events.Of(b.history.queue.JetStream(), b.account).Bound(ctx, events.Bounding{First: first, Alone: b.history.confirm})
		if err != nil {
			return err
		}
	}
	failpoint.Reached(ctx, "archive.events_opened")
	return objects.SnapshotsOf(b.history.queue.JetStream(), b.account).RemoveBut(ctx, object)
}

// store stores the snapshot next to the stream, unless an intact copy is already there. It
// then reads the snapshot back.
func (b bounding) store(ctx context.Context, l *ledger.Ledger, s ledger.Snapshot, object objects.Snapshot) error {
	q := b.history.queue
	stored, err := objects.SnapshotsOf(q.JetStream(), b.account).List(ctx)
	if err != nil {
		return err
	}
	there := slices.ContainsFunc(stored, func(o objects.Snapshot) bool { return o.Name() == object.Name() })
	if !there || b.check(ctx, s, object) != nil {
		from, to := io.Pipe()
		written := make(chan struct{})
		go func() { defer close(written); to.CloseWithError(l.WriteSnapshot(ctx, to)) }()
		err = objects.SnapshotsOf(q.JetStream(), b.account).Store(ctx, b.replicas, object, from)
		_ = from.Close()
		<-written // WriteSnapshot must end before the ledger is closed
		if err != nil {
			return err
		}
	}
	return b.check(ctx, s, object)
}

// check reads a stored snapshot completely and compares it with its hash.
func (b bounding) check(ctx context.Context, s ledger.Snapshot, object objects.Snapshot) (err error) {
	content, err := objects.SnapshotsOf(b.history.queue.JetStream(), b.account).Read(ctx, object)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	return ledger.CheckSnapshot(content, s)
}

// appendFact appends the fact about the removal, unless an earlier run has appended it.
func (b bounding) appendFact(ctx context.Context, l *ledger.Ledger, s ledger.Snapshot, first uint64, out *boundedEvents) error {
	said, err := l.EventsBegin(ctx)
	if err != nil || said >= int64(first) || first <= out.WasFirstSeq {
		return err
	}
	return l.Write(ctx, func(tx *ledger.Tx) error {
		return tx.Append(fact.LedgerBounded{
			FirstSeq: int64(first), LastSeq: s.Seq, LastHash: s.Hash, SnapshotHash: s.SnapshotHash,
			Bucket: out.Bucket, Object: out.Object, HeldBy: out.HeldBy, Lost: out.Lost,
		})
	})
}

// publish publishes all rows of the ledger. The facts about the archive must be on the stream
// before any event is removed.
func (b bounding) publish(ctx context.Context, l *ledger.Ledger) error {
	noted, err := l.Published(ctx)
	if err != nil {
		return err
	}
	head, _, err := l.Head(ctx)
	if err != nil {
		return err
	}
	outbox := outbox.New(b.history.queue.JetStream(), b.account, &journal.Source{Ledger: l, Account: b.account})
	outbox.Held, outbox.RefillAdvice, outbox.Begins = journal.HeldFromNote(noted), journal.RefillAdvice, journal.EventsBegin(l)
	parent := ctx
	ctx, stop := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() { defer close(done); stop(outbox.Run(ctx)) }()
	err = outbox.Wait(ctx, uint64(head))
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	stop(nil)
	<-done
	if err == nil {
		err = b.history.flush(b.log)
	}
	if err != nil {
		return fmt.Errorf("publish what was archived: %w", err)
	}
	const stopped = true // the server has been flushed, so a crash does not lose these events
	return l.NotePublished(parent, head, stopped)
}
