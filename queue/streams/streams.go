package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
	"perennial/queue/quota"
)

const (
	// maxCommandMessageBytes is the size of the largest body plus room for headers. The
	// stream refuses larger messages.
	maxCommandMessageBytes = queue.MaxCommandBytes + 4<<10
	// duplicateWindow is the smallest window that the server allows. The stream need not detect
	// duplicates, because the ledger does.
	duplicateWindow = 100 * time.Millisecond
	// deadWindow is how long the stream ignores a duplicate of a dead letter.
	deadWindow = 24 * time.Hour
)

// Wanted describes the required streams of an account.
type Wanted struct {
	Account  string
	Replicas int  // copies in a cluster; 0 and 1 both mean one
	Embedded bool // the server is embedded in a runner
}

// Ensure creates an account's missing streams and checks the existing ones, and the bucket of
// snapshots if it exists. It adjusts streams of earlier versions. If the removal of events from
// an events stream was interrupted, it makes that stream accept messages again. If a setting
// would lose data, it returns a [queue.StreamError]. It does not change harmless differences,
// such as a description or more replicas.
func (w Wanted) Ensure(ctx context.Context, js *queue.JetStream) error {
	if err := queue.ValidAccount(w.Account); err != nil {
		return err
	}
	for _, want := range w.configs() {
		if err := ensure(ctx, js, want); err != nil {
			return err
		}
	}
	return CheckSnapshots(ctx, js, w.Account, w.Replicas)
}

func (w Wanted) configs() []jetstream.StreamConfig {
	replicas := max(w.Replicas, 1)
	return []jetstream.StreamConfig{commandsConfig(w.Account, replicas), eventsConfig(w.Account, replicas, w.Embedded), deadConfig(w.Account, replicas)}
}

// Check checks an account's three streams, the consumers of its commands, and the bucket of
// snapshots if it exists. It changes nothing. It returns [queue.ErrNoAccount] if a stream is
// missing, and a [queue.StreamError] if a setting would lose data. It returns a [ConsumerError]
// if a consumer is paused or has other settings.
func (w Wanted) Check(ctx context.Context, js *queue.JetStream) error {
	if err := queue.ValidAccount(w.Account); err != nil {
		return err
	}
	for _, want := range w.configs() {
		stream, err := js.Stream(ctx, want.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("stream %s: %w", want.Name, queue.ErrNoAccount)
		}
		if err != nil {
			return fmt.Errorf("look up stream %s: %w", want.Name, queue.Explain(ctx, js, err))
		}
		have, _ := OpenConfig(stream.CachedInfo().Config) // the next start opens a stream that is cut
		if err := checkStream(have, want); err != nil {
			return err
		}
		if want.Retention == jetstream.WorkQueuePolicy {
			if err := checkConsumers(ctx, js, w.Account, stream); err != nil {
				return err
			}
		}
	}
	return CheckSnapshots(ctx, js, w.Account, w.Replicas)
}

// Unlike reports whether an error of [Wanted.Check] or [Wanted.CheckQuota] is about a
// stream, consumer or limit that exists but is not as required.
func Unlike(err error) bool {
	_, stream := errors.AsType[*queue.StreamError](err)
	_, consumer := errors.AsType[*ConsumerError](err)
	_, quota := errors.AsType[*quota.Error](err)
	return stream || consumer || quota
}

// commonConfig returns the settings that all streams share. The messages are on disk, and
// nothing limits their number, size or age. If the server has no room, the stream refuses new
// messages.
func commonConfig(name, description string, replicas int, subjects ...string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              name,
		Description:       description,
		Subjects:          subjects,
		Retention:         jetstream.LimitsPolicy,
		Storage:           jetstream.FileStorage,
		MaxMsgs:           -1,
		MaxBytes:          -1,
		MaxMsgsPerSubject: -1,
		MaxConsumers:      -1,
		MaxMsgSize:        -1,
		Discard:           jetstream.DiscardNew,
		Replicas:          replicas,
		Duplicates:        duplicateWindow,
		AllowDirect:       true,
	}
}

func commandsConfig(account string, replicas int) jetstream.StreamConfig {
	config := commonConfig(queue.CommandsStream(account), "Commands to Perennial, until they are in the ledger", replicas, queue.CommandSubjects(account)...)
	config.Retention = jetstream.WorkQueuePolicy
	config.MaxMsgSize = maxCommandMessageBytes
	config.AllowAtomicPublish = true
	return config
}

// eventsConfig allows asynchronous persistence only on an embedded server without replicas. Such
// a server is on the ledger's machine, and the ledger is synced before anything is published. On
// any other server rows are published before they are committed, in atomic batches
// (outbox.Outbox.Publish).
func eventsConfig(account string, replicas int, embedded bool) jetstream.StreamConfig {
	config := commonConfig(queue.EventsStream(account), "Facts of Perennial's journal, in order, for good", replicas, queue.EventSubject(account, ">"))
	config.DenyDelete, config.DenyPurge = true, true
	config.AllowAtomicPublish = !embedded
	if embedded && replicas == 1 {
		config.PersistMode = jetstream.AsyncPersistMode
	}
	return config
}

func deadConfig(account string, replicas int) jetstream.StreamConfig {
	config := commonConfig(queue.DeadStream(account), "Commands that could not be read, with the reason", replicas, queue.DeadSubject(account))
	config.Duplicates = deadWindow
	return config
}

func ensure(ctx context.Context, js *queue.JetStream, want jetstream.StreamConfig) error {
	stream, err := js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if _, err = js.CreateStream(ctx, want); err == nil {
			return nil
		}
		// Another runner may have created the stream at the same time: check that stream.
		if stream, _ = js.Stream(ctx, want.Name); stream == nil {
			return fmt.Errorf("create stream %s: %w", want.Name, cmp.Or(overlapping(ctx, js, want, err), err))
		}
	} else if err != nil {
		return fmt.Errorf("look up stream %s: %w", want.Name, queue.Explain(ctx, js, err))
	}
	have, cut := OpenConfig(stream.CachedInfo().Config)
	if err := checkStream(have, want); err != nil {
		return err
	}
	return adjust(ctx, js, have, want, cut)
}

// RemoveEvents removes an account's events stream, with its consumers.
func RemoveEvents(ctx context.Context, js *queue.JetStream, account string) error {
	if err := queue.ValidAccount(account); err != nil {
		return err
	}
	if err := js.DeleteStream(ctx, queue.EventsStream(account)); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("remove stream %s: %w", queue.EventsStream(account), err)
	}
	return nil
}

// adjust changes settings that can be changed without loss. cut says that a removal of
// events was started and not completed.
func adjust(ctx context.Context, js *queue.JetStream, have, want jetstream.StreamConfig, cut bool) error {
	lacks := len(have.Subjects) < len(want.Subjects)
	if !cut && !lacks && have.Duplicates <= want.Duplicates && (have.AllowAtomicPublish || !want.AllowAtomicPublish) {
		return nil
	}
	if lacks { // an earlier version created the stream
		have.Subjects = want.Subjects
	}
	have.Duplicates = min(have.Duplicates, want.Duplicates)
	have.AllowAtomicPublish = have.AllowAtomicPublish || want.AllowAtomicPublish
	if _, err := js.UpdateStream(ctx, have); err != nil {
		return fmt.Errorf("adjust stream %s: %w", have.Name, err)
	}
	js.Log().WithField("stream", have.Name).Info("stream settings adjusted: subjects, duplicate window, atomic publishing, limits that an archiving left")
	return nil
}

// checkStream returns an error for a setting with which messages could be lost, forged or
// refused.
func checkStream(have, want jetstream.StreamConfig) error {
	mirror, transform := "none", "none"
	if have.Mirror != nil {
		mirror = have.Mirror.Name
	}
	if have.SubjectTransform != nil {
		transform = have.SubjectTransform.Source
	}
	otherSubjects := !sameSubjects(have.Subjects, want.Subjects) && !olderSubjects(have, want)
	small := have.MaxMsgSize > 0 && (want.MaxMsgSize <= 0 || have.MaxMsgSize < want.MaxMsgSize)
	async := have.PersistMode == jetstream.AsyncPersistMode && want.PersistMode != jetstream.AsyncPersistMode
	for _, setting := range []struct {
		refused    bool
		field      string
		have, want any
	}{
		{have.Storage != want.Storage, "storage", have.Storage, want.Storage},
		{have.Retention != want.Retention, "retention", have.Retention, want.Retention},
		{have.Mirror != nil, "mirror", mirror, "none"},
		{len(have.Sources) > 0, "sources", len(have.Sources), "none"},
		{have.SubjectTransform != nil, "subject_transform", transform, "none"},
		{have.Sealed, "sealed", true, false},
		{have.NoAck, "no_ack", true, false},
		{otherSubjects, "subjects", have.Subjects, want.Subjects},
		{have.Replicas < want.Replicas, "num_replicas", have.Replicas, want.Replicas},
		{have.MaxAge > 0, "max_age", have.MaxAge, 0},
		{have.MaxMsgs > 0, "max_msgs", have.MaxMsgs, -1},
		{have.MaxBytes > 0, "max_bytes", have.MaxBytes, -1},
		{have.MaxMsgsPerSubject > 0, "max_msgs_per_subject", have.MaxMsgsPerSubject, -1},
		{small, "max_msg_size", have.MaxMsgSize, want.MaxMsgSize},
		{have.AllowMsgTTL, "allow_msg_ttl", true, false},
		{have.AllowRollup, "allow_rollup_hdrs", true, false},
		{want.DenyDelete && !have.DenyDelete, "deny_delete", false, true},
		{want.DenyPurge && !have.DenyPurge, "deny_purge", false, true},
		{async, "persist_mode", have.PersistMode, want.PersistMode},
	} {
		if setting.refused {
			return &queue.StreamError{Stream: have.Name, Field: setting.field, Have: fmt.Sprint(setting.have), Want: fmt.Sprint(setting.want)}
		}
	}
	return nil
}

// olderSubjects reports whether the commands stream was created by a version without
// priorities. adjust adds the missing subjects.
func olderSubjects(have, want jetstream.StreamConfig) bool {
	if want.Retention != jetstream.WorkQueuePolicy || len(have.Subjects) == 0 {
		return false
	}
	return !slices.ContainsFunc(have.Subjects, func(s string) bool { return !slices.Contains(want.Subjects, s) })
}

func sameSubjects(have, want []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(have)), slices.Sorted(slices.Values(want)))
}

// CheckSnapshots checks the settings of the snapshots bucket, as [Wanted.Check] does for a
// stream. A missing bucket is not an error, because it is created with the first snapshot.
func CheckSnapshots(ctx context.Context, js *queue.JetStream, account string, replicas int) error {
	name := queue.ObjectsStream(queue.SnapshotsBucket(account))
	stream, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look up stream %s: %w", name, err)
	}
	have := stream.CachedInfo().Config
	have.AllowRollup = false // objects are replaced with rollups
	bucket := queue.SnapshotsBucket(account)
	return checkStream(have, jetstream.StreamConfig{
		Name: name, Subjects: []string{"$O." + bucket + ".C.>", "$O." + bucket + ".M.>"}, Storage: jetstream.FileStorage, Replicas: max(replicas, 1),
	})
}

// ConsumerError reports a consumer of the commands stream that was paused or changed, so
// that commands would be delivered late or not at all.
type ConsumerError struct {
	Stream, Consumer string
	Why, Do          string
}

// Error returns the consumer, the defect, and the command that fixes it.
func (e *ConsumerError) Error() string {
	return fmt.Sprintf("consumer %s of stream %s %s: run `", e.Consumer, e.Stream, e.Why) + e.Do + "`"
}

// boundMark is a metadata key that the stream has while its first events are being removed.
// The value is the stream's first sequence after the removal.
const boundMark = "perennial-bound"

// IsCut reports whether a removal of events was started and not completed.
func IsCut(config jetstream.StreamConfig) bool { return config.Metadata[boundMark] != "" }

// CutConfig returns a configuration that closes the stream for events, with a message size
// limit of one byte. first is the stream's first sequence after the removal.
func CutConfig(have jetstream.StreamConfig, first uint64) jetstream.StreamConfig {
	have.Metadata = maps.Clone(have.Metadata)
	if have.Metadata == nil {
		have.Metadata = map[string]string{}
	}
	have.Metadata[boundMark] = strconv.FormatUint(first, 10)
	have.MaxMsgSize = 1
	return have
}

// OpenConfig returns a stream's configuration without the temporary settings of CutConfig.
// cut reports whether it had such settings.
func OpenConfig(have jetstream.StreamConfig) (open jetstream.StreamConfig, cut bool) {
	if !IsCut(have) {
		return have, false
	}
	have.Metadata = maps.Clone(have.Metadata)
	delete(have.Metadata, boundMark)
	have.MaxMsgs, have.MaxMsgSize, have.Discard = -1, -1, jetstream.DiscardNew
	return have, true
}

// CheckQuota compares the limits of the NATS account with what an account of Perennial still
// needs. It changes nothing. It returns a [quota.Error] for the first limit that is too low. It
// also returns one if another program's stream has some of the account's subjects.
func (w Wanted) CheckQuota(ctx context.Context, js *queue.JetStream) error {
	info, err := js.AccountInfo(ctx)
	if err != nil {
		return fmt.Errorf("look up the limits of the NATS account: %w", err)
	}
	missing, err := missing(ctx, js, w.Account)
	if err != nil {
		return err
	}
	tier := info.Tier
	if len(info.Tiers) > 0 {
		var ok bool
		if tier, ok = info.Tiers[fmt.Sprintf("R%d", max(w.Replicas, 1))]; !ok {
			return quota.NoTier()
		}
	}
	if err := quota.TooLittle(tier, len(missing)); err != nil {
		return err
	}
	for _, want := range w.configs() {
		if slices.Contains(missing, want.Name) {
			if err := overlapping(ctx, js, want, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

func missing(ctx context.Context, js *queue.JetStream, account string) ([]string, error) {
	wanted := []string{queue.CommandsStream(account), queue.EventsStream(account), queue.DeadStream(account),
		queue.ObjectsStream(queue.FleetBucket(account)), queue.KeyValueStream(queue.LeaseBucket), queue.KeyValueStream(queue.NodesBucket)}
	names := js.StreamNames(ctx)
	for name := range names.Name() {
		wanted = slices.DeleteFunc(wanted, func(w string) bool { return w == name })
	}
	if err := names.Err(); err != nil && !errors.Is(err, jetstream.ErrEndOfData) {
		return nil, fmt.Errorf("look up the streams of the NATS account: %w", err)
	}
	return wanted, nil
}

// overlapping returns an error if other streams have subjects that the wanted stream needs.
// refused is the server's refusal to create the wanted stream. overlapping returns nil if there
// are no such streams, or if the refusal has another reason.
func overlapping(ctx context.Context, js *queue.JetStream, want jetstream.StreamConfig, refused error) error {
	if refused != nil && !quota.IsOverlap(refused) {
		return nil
	}
	var others []string
	for _, subject := range want.Subjects {
		names := js.StreamNames(ctx, jetstream.WithStreamListSubject(subject))
		for name := range names.Name() {
			others = append(others, name)
		}
		if err := names.Err(); err != nil && refused == nil && !errors.Is(err, jetstream.ErrEndOfData) {
			return fmt.Errorf("look up the streams with subject %s: %w", subject, err)
		}
	}
	if len(others) == 0 {
		return nil
	}
	slices.Sort(others)
	return quota.Overlap(slices.Compact(others), want.Name, refused)
}

// Copies is what the leader of a stream reports about the stream's copies.
type Copies struct {
	Stream string
	Number int      // configured number
	Behind []string // descriptions of copies that lag or cannot be reached
}

// CopiesOf returns the copies of an account's existing streams, in a fixed order. It returns
// nil if the account has no streams.
func CopiesOf(ctx context.Context, js *queue.JetStream, account string) (all []Copies, err error) {
	if err := queue.ValidAccount(account); err != nil {
		return nil, err
	}
	for _, name := range queue.KeptStreams(account) {
		stream, err := js.Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look up stream %s: %w", name, err)
		}
		all = append(all, copiesOf(stream.CachedInfo()))
	}
	return all, nil
}

// copiesOf returns the copies that a stream's leader reports. The leader is one of them, and
// never lags.
func copiesOf(info *jetstream.StreamInfo) Copies {
	c := Copies{Stream: info.Config.Name, Number: max(info.Config.Replicas, 1)}
	if c.Number == 1 || info.Cluster == nil {
		return c
	}
	for _, peer := range info.Cluster.Replicas {
		switch {
		case peer.Offline:
			c.Behind = append(c.Behind, fmt.Sprintf("its copy on %s is away", peer.Name))
		case !peer.Current:
			c.Behind = append(c.Behind, fmt.Sprintf("its copy on %s is not current: %d operations behind, last heard of %s ago", peer.Name, peer.Lag, peer.Active.Round(time.Millisecond)))
		}
	}
	if there := len(info.Cluster.Replicas) + 1; there < c.Number {
		c.Behind = append(c.Behind, fmt.Sprintf("%d of its %d copies are placed on a server", there, c.Number))
	}
	return c
}

// Probe returns an error if an account's commands or events stream does not reply or has no
// leader, and therefore stores nothing. first is the sequence of the oldest event in the events
// stream. If the stream is empty, first is the next sequence. If the stream never had an event,
// first is 0. last is the newest sequence that the stream ever had.
func Probe(ctx context.Context, js *queue.JetStream, account string) (first, last uint64, err error) {
	for _, name := range []string{queue.CommandsStream(account), queue.EventsStream(account)} {
		stream, err := js.Stream(ctx, name)
		if err != nil {
			return 0, 0, fmt.Errorf("stream %s does not answer: %w", name, queue.Explain(ctx, js, err))
		}
		if cluster := stream.CachedInfo().Cluster; cluster != nil && cluster.Leader == "" {
			return 0, 0, fmt.Errorf("stream %s has no leader: too few of its servers are there, or they cannot store (a full disk, or max_file_store is reached)", name)
		}
		first, last = stream.CachedInfo().State.FirstSeq, stream.CachedInfo().State.LastSeq
	}
	return first, last, nil
}

// ackWait is how long after its delivery an unacknowledged command is delivered again.
const ackWait = time.Minute

// LineConfig returns the configuration of a line's consumer.
func LineConfig(account string, line queue.Line) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Name:          ConsumerOf(line),
		Durable:       ConsumerOf(line),
		Description:   "Perennial's intake",
		FilterSubject: line.Subject(account),
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       ackWait,
		MaxDeliver:    -1,
		MaxAckPending: quota.MaxAckPending,
		MaxWaiting:    32,
	}
}

// checkConsumers returns an error if a line's consumer is paused, or if its settings differ
// from LineConfig. A missing consumer is not an error, because the intake creates it. If the
// user may not list consumers, nothing is checked.
func checkConsumers(ctx context.Context, js *queue.JetStream, account string, stream jetstream.Stream) error {
	ctx, forget := js.Allowed(ctx, js.API()+"CONSUMER.LIST."+stream.CachedInfo().Config.Name)
	defer forget()
	infos := stream.ListConsumers(ctx)
	want := map[string]jetstream.ConsumerConfig{}
	for _, line := range queue.Lines() {
		want[ConsumerOf(line)] = LineConfig(account, line)
	}
	var found []error
	for info := range infos.Info() {
		if ours, ok := want[info.Name]; ok {
			found = append(found, checkConsumer(info, ours))
		}
	}
	err := queue.Denied(ctx, infos.Err())
	if _, mayNot := errors.AsType[*queue.DeniedError](err); mayNot {
		return nil
	}
	return errors.Join(append(found, err)...)
}

func checkConsumer(info *jetstream.ConsumerInfo, want jetstream.ConsumerConfig) error {
	have := info.Config
	if info.Paused {
		return &ConsumerError{Stream: info.Stream, Consumer: info.Name, Why: "is paused, and delivers no command",
			Do: fmt.Sprintf("nats consumer resume %s %s", info.Stream, info.Name)}
	}
	have.Description, have.Metadata, have.Replicas, have.PauseUntil = want.Description, want.Metadata, want.Replicas, want.PauseUntil
	if reflect.DeepEqual(have, want) {
		return nil
	}
	h, w := reflect.ValueOf(have), reflect.ValueOf(want)
	for i := range h.NumField() {
		if a, b := h.Field(i).Interface(), w.Field(i).Interface(); !reflect.DeepEqual(a, b) {
			field, _, _ := strings.Cut(h.Type().Field(i).Tag.Get("json"), ",")
			return &ConsumerError{Stream: info.Stream, Consumer: info.Name, Why: fmt.Sprintf("has %s %v, and must have %v", field, a, b),
				Do: fmt.Sprintf("nats consumer rm %s %s", info.Stream, info.Name)}
		}
	}
	return nil
}

// ConsumerOf returns the name of a line's durable consumer.
func ConsumerOf(l queue.Line) string {
	name := "perennial-" + strings.ReplaceAll(string(l.Kind), ".", "-")
	if l.Priority != queue.PriorityNormal {
		name += "-" + string(l.Priority)
	}
	return name
}
