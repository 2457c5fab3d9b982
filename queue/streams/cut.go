// Settings of an events stream while its first events are removed. The stream denies
// deletes and purges, and no update changes that, so a limit removes them. The stream is
// closed to publications, its limit is set to the number of messages to keep, and it is
// opened again without a limit (docs/decisions/0011). A mark in its metadata records this
// meanwhile.

package streams

import (
	"maps"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"
)

// boundMark is the stream's metadata key while its first events are removed. The value is
// the sequence at which the stream will begin.
const boundMark = "perennial-bound"

// IsCut reports whether a removal of events was begun and not ended.
func IsCut(config jetstream.StreamConfig) bool { return config.Metadata[boundMark] != "" }

// CutConfig closes a stream to events, by a size limit of one byte, which every event
// exceeds.
func CutConfig(have jetstream.StreamConfig, first uint64) jetstream.StreamConfig {
	have.Metadata = maps.Clone(have.Metadata)
	if have.Metadata == nil {
		have.Metadata = map[string]string{}
	}
	have.Metadata[boundMark] = strconv.FormatUint(first, 10)
	have.MaxMsgSize = 1
	return have
}

// OpenConfig returns a stream's configuration without the temporary settings of Bound.
func OpenConfig(have jetstream.StreamConfig) (open jetstream.StreamConfig, cut bool) {
	if !IsCut(have) {
		return have, false
	}
	have.Metadata = maps.Clone(have.Metadata)
	delete(have.Metadata, boundMark)
	have.MaxMsgs, have.MaxMsgSize, have.Discard = -1, -1, jetstream.DiscardNew
	return have, true
}
