package quota

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

// An account without limits gets no error.
func TestTheFirstLimitThatIsTooLowIsNamed(t *testing.T) {
	unlimited := jetstream.AccountLimits{MaxMemory: -1, MaxStore: -1, MaxStreams: -1, MaxConsumers: -1, MaxAckPending: -1}
	for name, lower := range map[string]func(*jetstream.AccountLimits){
		"":                   func(*jetstream.AccountLimits) {},
		"max_streams":        func(l *jetstream.AccountLimits) { l.MaxStreams = 5 },
		"max_bytes_required": func(l *jetstream.AccountLimits) { l.MaxBytesRequired = true },
		"max_consumers":      func(l *jetstream.AccountLimits) { l.MaxConsumers = consumersNeeded - 1 },
		"max_ack_pending":    func(l *jetstream.AccountLimits) { l.MaxAckPending = MaxAckPending - 1 },
		"max_file":           func(l *jetstream.AccountLimits) { l.MaxStore = roomNeeded - 1 },
		"max_memory":         func(l *jetstream.AccountLimits) { l.MaxMemory = 0 },
	} {
		limits := unlimited
		lower(&limits)
		err := TooLittle(jetstream.Tier{Limits: limits}, 6)
		limit, ok := errors.AsType[*Error](err)
		if ok != (name != "") || ok && limit.Limit != name {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The refusal keeps JetStream's own error besides its words.
func TestARefusalKeepsJetStreamsOwnError(t *testing.T) {
	refused := &jetstream.APIError{ErrorCode: codeMaxStreams}
	if limit, ok := errors.AsType[*Error](InWords(refused)); !ok || limit.Limit != "max_streams" || !errors.Is(limit, refused) {
		t.Errorf("%v", limit)
	}
	if _, ok := errors.AsType[*Error](InWords(&jetstream.APIError{ErrorCode: jetstream.JSErrCodeStreamNotFound})); ok {
		t.Error("an error of no limit is put into words")
	}
}
