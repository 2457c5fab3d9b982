// The streams of an account: their settings, creation and checks.

package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// MaxCommandBytes is the largest command body that is carried out.
	MaxCommandBytes = 128 << 10
	// maxCommandMessageBytes leaves room for headers beside the largest body;
	// the stream refuses what is larger when it is published.
	maxCommandMessageBytes = MaxCommandBytes + 4<<10
	// duplicateWindow is the smallest that the server allows: the ledger's
	// command table decides what a duplicate is, not the stream.
	duplicateWindow = 100 * time.Millisecond
	// deadWindow is for how long a dead letter stored twice is absorbed.
	deadWindow = 24 * time.Hour
)

// EnsureStreams creates an account's three streams where they are missing and
// checks those that exist, and the bucket of snapshots if there is one. Settings that would lose data are refused with a
// [StreamError]; harmless differences (a description, more replicas) stay.
// replicas is the number of copies on a cluster, 1 on a single server.
func (q *Queue) EnsureStreams(ctx context.Context, account string, replicas int) error {
	if err := ValidAccount(account); err != nil {
		return err
	}
	for _, want := range streamConfigs(account, replicas, q.embedded) {
		if err := q.ensureStream(ctx, want); err != nil {
			return err
		}
	}
	return q.checkSnapshots(ctx, account, replicas)
}

func streamConfigs(account string, replicas int, embedded bool) []jetstream.StreamConfig {
	replicas = max(replicas, 1)
	return []jetstream.StreamConfig{commandsConfig(account, replicas), eventsConfig(account, replicas, embedded), deadConfig(account, replicas)}
}

// CheckStreams looks at an account's three streams, and at the bucket of snapshots
// if there is one, and changes nothing:
// [ErrNoAccount] when one is missing, a [StreamError] for settings that would
// lose data. embedded says that the server is the one inside a running host.
func (q *Queue) CheckStreams(ctx context.Context, account string, replicas int, embedded bool) error {
	if err := ValidAccount(account); err != nil {
		return err
	}
	for _, want := range streamConfigs(account, replicas, embedded) {
		stream, err := q.js.Stream(ctx, want.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("stream %s: %w", want.Name, ErrNoAccount)
		}
		if err != nil {
			return fmt.Errorf("look up stream %s: %w", want.Name, err)
		}
		have, _ := openConfig(stream.CachedInfo().Config) // the next start opens it
		if err := checkStream(have, want); err != nil {
			return err
		}
	}
	return q.checkSnapshots(ctx, account, replicas)
}

func commandsConfig(account string, replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:               CommandsStream(account),
		Description:        "Commands to Perennial, until they are in the ledger",
		Subjects:           commandSubjects(account),
		Retention:          jetstream.WorkQueuePolicy,
		Storage:            jetstream.FileStorage,
		MaxMsgs:            -1,
		MaxBytes:           -1,
		MaxMsgsPerSubject:  -1,
		MaxConsumers:       -1,
		MaxMsgSize:         maxCommandMessageBytes,
		Discard:            jetstream.DiscardNew,
		Replicas:           replicas,
		Duplicates:         duplicateWindow,
		AllowDirect:        true,
		AllowAtomicPublish: true,
	}
}

// eventsConfig asks for asynchronous persistence only where the ledger, synced before
// anything is published, is on the same machine, and never with replicas.
func eventsConfig(account string, replicas int, embedded bool) jetstream.StreamConfig {
	config := jetstream.StreamConfig{
		Name:              EventsStream(account),
		Description:       "Facts of Perennial's journal, in order, for good",
		Subjects:          []string{EventSubject(account, ">")},
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
		DenyDelete:        true,
		DenyPurge:         true,
		AllowDirect:       true,
	}
	if embedded && replicas == 1 {
		config.PersistMode = jetstream.AsyncPersistMode
	}
	return config
}

func deadConfig(account string, replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:              DeadStream(account),
		Description:       "Commands that could not be read, with the reason",
		Subjects:          []string{DeadSubject(account)},
		Retention:         jetstream.LimitsPolicy,
		Storage:           jetstream.FileStorage,
		MaxMsgs:           -1,
		MaxBytes:          -1,
		MaxMsgsPerSubject: -1,
		MaxConsumers:      -1,
		MaxMsgSize:        -1,
		Discard:           jetstream.DiscardNew,
		Replicas:          replicas,
		Duplicates:        deadWindow,
		AllowDirect:       true,
	}
}

func (q *Queue) ensureStream(ctx context.Context, want jetstream.StreamConfig) error {
	stream, err := q.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if _, err = q.js.CreateStream(ctx, want); err == nil {
			return nil
		}
		// Another runner may have created it at the same moment: check that one.
		if stream, _ = q.js.Stream(ctx, want.Name); stream == nil {
			return fmt.Errorf("create stream %s: %w", want.Name, err)
		}
	} else if err != nil {
		return fmt.Errorf("look up stream %s: %w", want.Name, err)
	}
	have, cut := openConfig(stream.CachedInfo().Config)
	if err := checkStream(have, want); err != nil {
		return err
	}
	return q.adjustStream(ctx, have, want, cut)
}

// RemoveEvents removes an account's events stream, with its consumers.
func (q *Queue) RemoveEvents(ctx context.Context, account string) error {
	if err := ValidAccount(account); err != nil {
		return err
	}
	if err := q.js.DeleteStream(ctx, EventsStream(account)); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("remove stream %s: %w", EventsStream(account), err)
	}
	return nil
}

// adjustStream changes what can be changed without losing anything. cut says that
// removing events was begun there and not ended.
func (q *Queue) adjustStream(ctx context.Context, have, want jetstream.StreamConfig, cut bool) error {
	lacks := len(have.Subjects) < len(want.Subjects)
	if !cut && !lacks && have.Duplicates <= want.Duplicates && (have.AllowAtomicPublish || !want.AllowAtomicPublish) {
		return nil
	}
	if lacks { // a stream that an earlier version made
		have.Subjects = want.Subjects
	}
	have.Duplicates = min(have.Duplicates, want.Duplicates)
	have.AllowAtomicPublish = have.AllowAtomicPublish || want.AllowAtomicPublish
	if _, err := q.js.UpdateStream(ctx, have); err != nil {
		return fmt.Errorf("adjust stream %s: %w", have.Name, err)
	}
	q.log.WithField("stream", have.Name).Info("stream settings adjusted: subjects, duplicate window, atomic publishing, limits that an archiving left")
	return nil
}

// checkStream refuses settings under which messages could be lost, forged or
// left out.
func checkStream(have, want jetstream.StreamConfig) error {
	refuse := func(field string, got, must any) error {
		return &StreamError{Stream: have.Name, Field: field, Have: fmt.Sprint(got), Want: fmt.Sprint(must)}
	}
	switch {
	case have.Storage != want.Storage:
		return refuse("storage", have.Storage, want.Storage)
	case have.Retention != want.Retention:
		return refuse("retention", have.Retention, want.Retention)
	case have.Mirror != nil:
		return refuse("mirror", have.Mirror.Name, "none")
	case len(have.Sources) > 0:
		return refuse("sources", len(have.Sources), "none")
	case have.SubjectTransform != nil:
		return refuse("subject_transform", have.SubjectTransform.Source, "none")
	case have.Sealed:
		return refuse("sealed", true, false)
	case have.NoAck:
		return refuse("no_ack", true, false)
	case !sameSubjects(have.Subjects, want.Subjects) && !olderSubjects(have, want):
		return refuse("subjects", have.Subjects, want.Subjects)
	case have.Replicas < want.Replicas:
		return refuse("num_replicas", have.Replicas, want.Replicas)
	}
	return checkLimits(have, want, refuse)
}

// checkLimits refuses limits and permissions that let messages disappear.
func checkLimits(have, want jetstream.StreamConfig, refuse func(string, any, any) error) error {
	switch {
	case have.MaxAge > 0:
		return refuse("max_age", have.MaxAge, 0)
	case have.MaxMsgs > 0:
		return refuse("max_msgs", have.MaxMsgs, -1)
	case have.MaxBytes > 0:
		return refuse("max_bytes", have.MaxBytes, -1)
	case have.MaxMsgsPerSubject > 0:
		return refuse("max_msgs_per_subject", have.MaxMsgsPerSubject, -1)
	case have.MaxMsgSize > 0 && (want.MaxMsgSize <= 0 || have.MaxMsgSize < want.MaxMsgSize):
		return refuse("max_msg_size", have.MaxMsgSize, want.MaxMsgSize)
	case have.AllowMsgTTL:
		return refuse("allow_msg_ttl", true, false)
	case have.AllowRollup:
		return refuse("allow_rollup_hdrs", true, false)
	case want.DenyDelete && !have.DenyDelete:
		return refuse("deny_delete", false, true)
	case want.DenyPurge && !have.DenyPurge:
		return refuse("deny_purge", false, true)
	case have.PersistMode == jetstream.AsyncPersistMode && want.PersistMode != jetstream.AsyncPersistMode:
		return refuse("persist_mode", have.PersistMode, want.PersistMode)
	}
	return nil
}

// olderSubjects reports a commands stream of before there were priorities, which gets the
// subjects that it lacks.
func olderSubjects(have, want jetstream.StreamConfig) bool {
	if want.Retention != jetstream.WorkQueuePolicy || len(have.Subjects) == 0 {
		return false
	}
	for _, s := range have.Subjects {
		if !slices.Contains(want.Subjects, s) {
			return false
		}
	}
	return true
}

// sameSubjects compares without regard to order.
func sameSubjects(have, want []string) bool {
	have, want = slices.Clone(have), slices.Clone(want)
	slices.Sort(have)
	slices.Sort(want)
	return slices.Equal(have, want)
}
