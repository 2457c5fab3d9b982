package quota

import (
	"errors"
	"fmt"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/nats-io/nats.go/jetstream"
)

// Error reports that JetStream refuses, or would refuse, something that an account of
// Perennial needs.
type Error struct {
	Limit string // name of the limit in the configuration of nats-server
	Seen  string
	Do    string
	err   error // JetStream's own error; nil if no request was made
}

// Error says which limit is too low, and what to configure.
func (e *Error) Error() string { return e.Limit + ": " + e.Seen + ": " + e.Do }

// Unwrap returns JetStream's own error.
func (e *Error) Unwrap() error { return e.err }

// Error codes of nats-server that have no names in the client library.
const (
	codeAccountFull      jetstream.ErrorCode = 10002
	codeNoPlace          jetstream.ErrorCode = 10023
	codeMaxStreams       jetstream.ErrorCode = 10027
	codeMemoryFull       jetstream.ErrorCode = 10028
	codeStorageFull      jetstream.ErrorCode = 10047
	codeOverlap          jetstream.ErrorCode = 10065
	codeMaxBytesRequired jetstream.ErrorCode = 10113
	codeNoTier           jetstream.ErrorCode = 10120
	codeMaxAckPending    jetstream.ErrorCode = 10121
)

// What to configure, for an account in the server's configuration or for a JWT account.
const (
	raiseStreams   = "raise it in the account's jetstream block (`nsc edit account --js-streams`): docs/nats.md, \"Quota\", says how many are needed"
	raiseConsumers = "raise it in the account's jetstream block (`nsc edit account --js-consumer`): docs/nats.md, \"Quota\", says how many are needed"
	raiseStorage   = "raise max_file of the account and max_file_store of the server, or make room with `perennial backup archive`"
	raiseMemory    = "give the account some max_memory: a bucket that says which runners live is in memory"
	dropMaxBytes   = "set it to false for the account (`nsc edit account --js-max-bytes-required=false`): the streams hold what is nowhere else, and have no limit"
	raiseAcks      = "raise it to 65536, or remove it, in the account's jetstream block and in the server's limits"
	moveOverlap    = "take the subjects perennial.> out of the other stream, or delete it"
)

// quotas explains the refusals by JetStream that an operator can resolve.
var quotas = map[jetstream.ErrorCode]Error{ //nolint:exhaustive // the other codes are not about limits
	codeMaxStreams:                           {Limit: "max_streams", Seen: "the NATS account has as many streams as it may", Do: raiseStreams},
	jetstream.JSErrCodeMaximumConsumersLimit: {Limit: "max_consumers", Seen: "the stream has as many consumers as the NATS account allows", Do: raiseConsumers},
	codeMaxBytesRequired:                     {Limit: "max_bytes_required", Seen: "the NATS account refuses streams without max_bytes", Do: dropMaxBytes},
	codeMaxAckPending:                        {Limit: "max_ack_pending", Seen: "the NATS server allows a consumer fewer unacknowledged messages than are needed", Do: raiseAcks},
	codeAccountFull:                          {Limit: "max_file", Seen: "the NATS account has stored as much as it may", Do: raiseStorage},
	codeStorageFull:                          {Limit: "max_file", Seen: "the NATS account or its server has no storage left", Do: raiseStorage},
	codeMemoryFull:                           {Limit: "max_memory", Seen: "the NATS account or its server has no memory left for streams", Do: raiseMemory},
	codeNoPlace:                              {Limit: "max_file_store", Seen: "the NATS server stores nothing more: its disk is full, or the limit is reached", Do: "raise it in the server's jetstream block, or make room on its disk"},
	codeNoTier:                               {Limit: "tiers", Seen: "the NATS account has no JetStream limits for so many replicas", Do: "add a tier for accounts.NAME.replicas (`nsc edit account --js-tier`), or change that key"},
	codeOverlap:                              {Limit: "subjects", Seen: "another stream of the NATS account takes subjects of Perennial", Do: moveOverlap},
}

// InWords explains a refusal by JetStream: which limit caused it, and what to configure. It
// returns other errors unchanged.
func InWords(err error) error {
	if refused, ok := errors.AsType[*jetstream.APIError](err); ok {
		if q, ok := quotas[refused.ErrorCode]; ok {
			q.err = err
			return &q
		}
	}
	return err
}

const (
	// consumersNeeded is the number of consumers that each stream must allow. The commands
	// stream needs a consumer for each line, and the events stream needs some for clients.
	consumersNeeded = 16
	// MaxAckPending is how many commands may be delivered but not acknowledged. It is higher
	// than a runner needs. It does not limit the use of memory, because the server sends only
	// the commands that the runner requests.
	MaxAckPending = 65536
	// roomNeeded is the storage that one batch of events needs, in bytes.
	roomNeeded = 1 << 20
)

// TooLittle returns an [Error] for the first limit that is too low if the NATS account needs
// this many more streams. It returns nil if all limits suffice.
func TooLittle(t jetstream.Tier, streams int) error {
	l := t.Limits
	for _, limit := range []struct {
		low      bool
		name     string
		seen, do string
	}{
		{l.MaxStreams > 0 && t.Streams+streams > l.MaxStreams, "max_streams", fmt.Sprintf("%d allows the NATS account %d streams more, and %d are needed", l.MaxStreams, max(l.MaxStreams-t.Streams, 0), streams), raiseStreams},
		{l.MaxBytesRequired && streams > 0, "max_bytes_required", quotas[codeMaxBytesRequired].Seen, dropMaxBytes},
		{l.MaxConsumers > 0 && l.MaxConsumers < consumersNeeded, "max_consumers", fmt.Sprintf("%d for each stream, and %d are needed", l.MaxConsumers, consumersNeeded), raiseConsumers},
		{l.MaxAckPending > 0 && l.MaxAckPending < MaxAckPending, "max_ack_pending", fmt.Sprintf("%d, and %d are needed", l.MaxAckPending, MaxAckPending), raiseAcks},
		{l.MaxStore >= 0 && int64(t.Store)+roomNeeded > l.MaxStore, "max_file", fmt.Sprintf("%s of %s are used", humanize.IBytes(t.Store), humanize.IBytes(uint64(max(l.MaxStore, 0)))), raiseStorage},
		{l.MaxMemory == 0, "max_memory", "the NATS account may keep no stream in memory", raiseMemory},
	} {
		if limit.low {
			return &Error{Limit: limit.name, Seen: limit.seen, Do: limit.do}
		}
	}
	return nil
}

// NoTier returns the error for a NATS account that has separate limits for each number of
// replicas, but none for the requested number.
func NoTier() error { return InWords(&jetstream.APIError{ErrorCode: codeNoTier}) }

// IsOverlap reports whether a stream was refused because another stream has some of its
// subjects.
func IsOverlap(err error) bool {
	refused, ok := errors.AsType[*jetstream.APIError](err)
	return ok && refused.ErrorCode == codeOverlap
}

// Overlap returns the error for streams that have subjects of another stream. refused is
// JetStream's own error. It is nil if no request was made.
func Overlap(streams []string, stream string, refused error) error {
	return &Error{Limit: "subjects", Seen: "stream " + strings.Join(streams, ", ") + " takes subjects of " + stream, Do: moveOverlap, err: refused}
}
