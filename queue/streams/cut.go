// This file has the settings of an events stream while its first events are removed. The
// stream denies deletes and purges, and an update cannot change that, so the events are
// removed by a limit. The stream is closed for publishing, its limit is set to the number
// of messages to keep, and it is opened again without a limit (docs/decisions/0011). In the
// meantime its metadata has a mark.

package streams

import (
	"maps"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"
)

// boundMark is the stream's metadata key while its first events are removed. The value is
// the stream's first sequence after the removal.
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
