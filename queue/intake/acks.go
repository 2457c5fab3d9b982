package intake

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
)

const (
	// ackInterval is how long acknowledgements are gathered. As soon as ackGather
	// acknowledgements have gathered, the interval ends early. For ackMany or more
	// acknowledgements, one purge is cheaper than single acknowledgements.
	ackInterval = 50 * time.Millisecond
	ackGather   = 1024
	ackMany     = 16
	// An acknowledged command waits for earlier commands that are not acknowledged yet. After
	// maxAckIntervals it waits no longer.
	maxAckIntervals = 10
	maxTracked      = 16384
	purgeTimeout    = 5 * time.Second
)

// acks combines acknowledgements. With synced writes, the server syncs the disk once for each
// single acknowledgement (3,300 a second when measured), but only a few times for a purge of any
// length. If many consecutive commands at the start of the stream are acknowledged, one purge
// removes them all.
//
// The commands of one kind and priority are a line (queue.Line). Each line has its own consumer,
// purges and run. The run contains consecutive deliveries of the line's commands. A purge
// selects the line's subject, unless the stream has no other subjects.
//
// A purge may only remove commands that were acknowledged here. This is safe if the stream has
// no command of the line before the run's first command, and the run has no gap. The server
// numbers its deliveries and delivers new commands in stream order. If two new commands have
// consecutive delivery numbers, there is therefore no other command between them. A delivery
// that breaks these rules starts a new run, and the commands of the old run are acknowledged
// singly.
type acks struct {
	js      *queue.JetStream
	account string
	line    queue.Line // only commands of this line are removed
	stream  jetstream.Stream
	created time.Time     // when the stream was created; another stream of the same name is not purged
	wake    chan struct{} // signals an acknowledgement
	full    chan struct{} // signals that an early flush is due

	removing sync.Mutex // held during a purge and while a command is returned

	mu       sync.Mutex
	returned map[uint64]struct{} // commands that were returned and not delivered again yet
	run      []*tracked          // first deliveries whose acknowledgement was not sent, ascending by sequence
	last     uint64              // sequence of the run's last command, 0 before the first
	waiting  int                 // commands of run that were acknowledged here but not at the server
	delivery uint64              // the last delivery number
	number   int                 // increases with each run
	alone    bool                // the stream has no unacknowledged command before the run
	ended    bool                // work has made its last flush
}

type tracked struct {
	seq    uint64
	msg    jetstream.Msg
	acked  bool // acknowledged here
	sent   bool // acknowledged at the server
	single bool // its run has ended, so it is acknowledged immediately
	waits  int  // number of flushes that it waited for an earlier command
}

func newAcks(js *queue.JetStream, account string, line queue.Line, stream jetstream.Stream) *acks {
	return &acks{js: js, account: account, line: line, stream: stream, created: stream.CachedInfo().Created, returned: map[uint64]struct{}{},
		wake: make(chan struct{}, 1), full: make(chan struct{}, 1)}
}

// track records a delivery. If it returns nil, the delivery must be acknowledged singly.
func (a *acks) track(meta *jetstream.MsgMetadata, msg jetstream.Msg) *tracked {
	a.mu.Lock()
	defer a.mu.Unlock()
	seq, again := meta.Sequence.Stream, meta.NumDelivered > 1
	follows := meta.Sequence.Consumer == a.delivery+1
	a.delivery = meta.Sequence.Consumer
	delete(a.returned, seq)
	// A new command comes after all commands in the run. A redelivered command does not.
	if beyond := seq > a.last; !follows || again == beyond || len(a.run) >= maxTracked {
		a.breakRun()
	}
	if again {
		return a.find(seq, msg)
	}
	entry := &tracked{seq: seq, msg: msg}
	a.run, a.last = append(a.run, entry), seq
	return entry
}

func (a *acks) find(seq uint64, msg jetstream.Msg) *tracked {
	at, found := slices.BinarySearchFunc(a.run, seq, func(t *tracked, seq uint64) int {
		return cmp.Compare(t.seq, seq)
	})
	if !found {
		return nil
	}
	// The server expects an acknowledgement of this delivery, even if an earlier delivery was
	// acknowledged.
	a.run[at].msg, a.run[at].sent = msg, false
	return a.run[at]
}

// begin ends the run, because the consumer was made again and numbers its deliveries from 1.
func (a *acks) begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.breakRun()
}

func (a *acks) breakRun() {
	for _, entry := range a.run {
		entry.single = true
		entry.send(a.js)
	}
	a.run, a.last, a.waiting, a.alone = nil, 0, 0, false
	a.number++
	clear(a.returned)
}

// putBack asks for another delivery of a command. After a purge, the server would drop the
// request for this delivery, and deliver the command only after the ack wait of a minute.
// Therefore no purge runs until the command was delivered again.
func (a *acks) putBack(seq uint64, msg jetstream.Msg, delay time.Duration) error {
	a.removing.Lock()
	defer a.removing.Unlock()
	a.mu.Lock()
	a.returned[seq] = struct{}{}
	a.mu.Unlock()
	return msg.NakWithDelay(delay)
}

func (a *acks) allRedelivered() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.returned) == 0
}

// send acknowledges the command singly at the server, if it was acknowledged here.
func (t *tracked) send(js *queue.JetStream) {
	if !t.acked || t.sent {
		return
	}
	t.sent = true
	if err := t.msg.Ack(); err != nil && !errors.Is(err, jetstream.ErrMsgAlreadyAckd) {
		js.Log().WithError(err).Debug("an acknowledgement is lost, the command comes again")
	}
}

func (a *acks) ack(entry *tracked, msg jetstream.Msg) error {
	if entry == nil {
		return msg.Ack()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended || entry.single {
		entry.acked, entry.sent = true, true
		return msg.Ack()
	}
	if entry.acked {
		if !entry.sent { // it was delivered again, so the server lacks its acknowledgement
			a.waiting++
			signal(a.wake)
		}
		return nil
	}
	entry.acked = true
	a.waiting++
	signal(a.wake)
	if a.waiting >= ackGather {
		signal(a.full)
	}
	return nil
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// work calls flush until ctx ends. Acknowledgements after that are sent singly.
func (a *acks) work(ctx context.Context) {
	tick := time.NewTimer(ackInterval)
	defer tick.Stop()
	for ctx.Err() == nil {
		if a.idle() {
			select {
			case <-a.wake:
			case <-ctx.Done():
			}
		}
		tick.Reset(ackInterval)
		select {
		case <-ctx.Done():
		case <-a.full:
		case <-tick.C:
		}
		a.flush(context.WithoutCancel(ctx))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.breakRun()
	a.ended = true
}

func (a *acks) idle() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.waiting == 0
}

// flush sends the acknowledgements for the acknowledged commands at the start of the run. It
// also acknowledges each other command that has waited too long for an earlier one.
func (a *acks) flush(ctx context.Context) {
	prefix, number, alone := a.takePrefix()
	if len(prefix) >= ackMany && a.purge(ctx, prefix, alone) {
		a.mu.Lock()
		a.alone = a.alone || number == a.number
		a.mu.Unlock()
		return
	}
	for _, entry := range prefix {
		entry.send(a.js)
	}
}

// takePrefix removes the acknowledged commands at the start of the run and returns them.
// Afterwards only the caller uses these entries.
func (a *acks) takePrefix() (prefix []*tracked, number int, alone bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for n < len(a.run) && a.run[n].acked {
		n++
	}
	prefix = slices.Clone(a.run[:n])
	a.run = slices.Delete(a.run, 0, n)
	a.waiting = 0
	for _, entry := range a.run {
		if !entry.acked || entry.sent {
			continue
		}
		if entry.waits++; entry.waits >= maxAckIntervals {
			entry.send(a.js)
			continue
		}
		a.waiting++
	}
	return prefix, a.number, a.alone
}

// purge removes the prefix, the acknowledged commands at the start of the run, from the stream.
// Up to the end of the prefix, the stream must have no other command of the line. If purge
// returns false, the prefix must be acknowledged singly.
func (a *acks) purge(ctx context.Context, prefix []*tracked, alone bool) bool {
	a.removing.Lock()
	defer a.removing.Unlock()
	if !a.allRedelivered() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, purgeTimeout)
	defer cancel()
	subject := a.line.Subject(a.account)
	last := prefix[len(prefix)-1].seq
	others, ok := a.mayPurge(ctx, prefix[0].seq, last, alone)
	if !ok {
		return false
	}
	options := []jetstream.StreamPurgeOpt{jetstream.WithPurgeSequence(last + 1)}
	if others {
		options = append(options, jetstream.WithPurgeSubject(subject))
	}
	if err := a.stream.Purge(ctx, options...); err != nil {
		a.js.Log().WithError(err).WithField("account", a.account).Debug("acknowledged commands are removed singly")
		return false
	}
	return true
}

// mayPurge reads the stream's state. ok means that the stream has no command of the line with a
// sequence below first. others means that the stream has commands of other lines. The purge then
// needs a subject filter, which costs the server much more than a purge without one. Commands
// that are published later have higher sequences.
//
// The state is that of the stream's leader. In a cluster, a replica delivers the commands. It may be
// ahead of the leader: ok then is false, because the leader does not show all commands up to last.
func (a *acks) mayPurge(ctx context.Context, first, last uint64, alone bool) (others, ok bool) {
	info, err := a.stream.Info(ctx, jetstream.WithSubjectFilter(queue.CommandSubject(a.account, ">")))
	if err != nil || !info.Created.Equal(a.created) || info.State.LastSeq < last {
		return false, false
	}
	subject := a.line.Subject(a.account)
	_, has := info.State.Subjects[subject]
	others = len(info.State.Subjects) > 1 || !has
	if alone || info.State.FirstSeq >= first {
		return others, true
	}
	if !others {
		return false, false
	}
	lowest, err := a.stream.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(subject))
	return true, err == nil && lowest.Sequence >= first
}
