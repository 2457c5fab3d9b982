// This file explains why JetStream does not reply: it is not enabled, the streams are in
// another domain, or the hub of a leaf node cannot be reached.

package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"perennial/ledger/sleep"
)

// AbsentError reports that JetStream does not reply where the configuration expects the
// streams.
type AbsentError struct{ Seen, Do string }

// Error says what was seen, and what to do.
func (e *AbsentError) Error() string { return e.Seen + ": " + e.Do }

// CheckPresent returns nil if JetStream replies, and an [AbsentError] if no server replies
// for it. It returns other errors unchanged, such as a timeout.
func CheckPresent(ctx context.Context, j *JetStream) error {
	_, err := j.AccountInfo(ctx)
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return &AbsentError{"JetStream is not enabled for the NATS account of this login", "add jetstream: enabled to the account (docs/nats.md), or log in as a user of the account with the streams"}
	case !errors.Is(err, jetstream.ErrJetStreamNotEnabled):
		return err
	case j.api == jetstream.DefaultAPIPrefix:
		return &AbsentError{"NATS at " + j.URL() + " has no JetStream, and reaches none", "add a jetstream block to the server; on a leaf node, see that it is connected to its hub, and set nats.domain to the hub's"}
	}
	here, err := jetstream.New(j.Conn())
	if err != nil {
		return err
	}
	info, err := here.AccountInfo(ctx)
	if err != nil {
		return &AbsentError{"no JetStream answers at " + j.api + ", and NATS at " + j.URL() + " has none of its own", "see that this leaf node is connected to its hub, that the hub runs, and that nats.domain is the hub's"}
	}
	return &AbsentError{fmt.Sprintf("no JetStream answers at %s; that of NATS at %s has the domain %q", j.api, j.URL(), info.Domain),
		"set nats.domain to this one where the streams are there; where they are on the hub of this leaf node, to the hub's, and see that the two are connected"}
}

// Explain returns an [AbsentError] in place of an error that says that JetStream did not
// reply. It returns other errors unchanged.
func Explain(ctx context.Context, j *JetStream, err error) error {
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		if absent, ok := errors.AsType[*AbsentError](CheckPresent(ctx, j)); ok {
			return absent
		}
	}
	return err
}

// AwaitPresent waits until JetStream replies, and then returns nil. If JetStream is not
// enabled, it returns that error immediately. If ctx ends first, it returns the error of the
// last request. It calls waits once, if the first request gets no reply.
func AwaitPresent(ctx context.Context, j *JetStream, waits func()) error {
	for first := true; ; first = false {
		limited, cancel := context.WithTimeout(ctx, electionAsk)
		_, err := j.AccountInfo(limited)
		cancel()
		if err == nil || errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
			return err
		}
		if first {
			waits()
		}
		if sleep.For(ctx, electionAgain) != nil {
			return err
		}
	}
}

// electionAsk limits one request to a cluster that may have no leader. electionAgain is the
// wait before the next request.
const (
	electionAsk   = 2 * time.Second
	electionAgain = 250 * time.Millisecond
)
