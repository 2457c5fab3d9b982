// The settings of an events stream while its first events are removed. The stream denies
// deletes and purges, and no update changes that, so they are removed by a limit: the stream
// is closed to publications, its limit is set to as many messages as stay, and it is opened
// again without one (docs/decisions/0011). A mark in its metadata says so meanwhile.

package streams

import (
	"maps"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"
)

// boundMark is the stream's metadata key while its first events are removed; the
// value is the sequence at which it will begin.
const boundMark = "perennial-bound"

// IsCut reports whether removing events was begun there and not ended.
func IsCut(config jetstream.StreamConfig) bool { return config.Metadata[boundMark] != "" }

// CutConfig closes a stream to events: each has more than one byte, and more is
// not taken.
func CutConfig(have jetstream.StreamConfig, first uint64) jetstream.StreamConfig {
	have.Metadata = maps.Clone(have.Metadata)
	if have.Metadata == nil {
		have.Metadata = map[string]string{}
	}
	have.Metadata[boundMark] = strconv.FormatUint(first, 10)
	have.MaxMsgSize = 1
	return have
}

// OpenConfig is a stream's configuration without what Bound sets meanwhile.
func OpenConfig(have jetstream.StreamConfig) (open jetstream.StreamConfig, cut bool) {
	if !IsCut(have) {
		return have, false
	}
	have.Metadata = maps.Clone(have.Metadata)
	delete(have.Metadata, boundMark)
	have.MaxMsgs, have.MaxMsgSize, have.Discard = -1, -1, jetstream.DiscardNew
	return have, true
}
