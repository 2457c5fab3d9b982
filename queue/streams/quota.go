// This file compares the limits of a NATS account with what an account's streams need.

package streams

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
	"perennial/queue/quota"
)

// CheckQuota compares the limits of the NATS account with what an account of Perennial still
// needs. It changes nothing. It returns a [quota.Error] for the first limit that is too low,
// or for another program's stream that has some of the account's subjects.
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

// missing returns the streams that an account's first start creates and that do not exist.
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

// overlapping returns an error if other streams have subjects of the stream to create. It
// returns nil if there are no such streams, or if the stream was refused for another reason.
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
