package fact

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
)

// BenchmarkEncode compares the encoder of facts with the standard library's.
func BenchmarkEncode(b *testing.B) {
	facts := benchFacts()
	var text bytes.Buffer
	b.Run("facts", func(b *testing.B) {
		for b.Loop() {
			for _, f := range facts {
				text.Reset()
				if err := Encode(&text, f); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("standard", func(b *testing.B) {
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false)
		for b.Loop() {
			for _, f := range facts {
				text.Reset()
				if err := e.Encode(f); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}

// benchFacts returns the facts of a renewal of one proxy.
func benchFacts() []Fact {
	expiry := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	return []Fact{
		CommandAccepted{Ref: Ref{CommandID: "c-1"}, Kind: KindRenewal, ContentHash: "0123456789abcdef", Content: json.RawMessage(`{"id":"c-1","proxy_ids":["px_1"],"duration_days":30}`),
			DurationDays: 30, Operations: []Planned{{OperationID: "c-1/0001", Chunk: "0001", Generation: 1, Key: "k", ProxyIDs: []string{"px_1"}}}},
		OperationSending{Ref: Ref{CommandID: "c-1", OperationID: "c-1/0001"}, Attempt: 1, Key: "k", Body: `{"proxy_ids":["px_1"]}`, SentAt: expiry, AppID: "a", Observed: map[string]time.Time{"px_1": expiry}},
		RenewalSettled{Ref: Ref{CommandID: "c-1", OperationID: "c-1/0001"}, Status: "completed", Attempt: 1, Lines: Lines{ChargedCents: 300, Items: []Line{{ProxyID: "px_1", State: LineSucceeded, ChargedCents: 300}}}},
		CommandFinished{Ref: Ref{CommandID: "c-1"}, Revision: 1, State: "completed", Lines: []FinishedLine{{DeliveredProxy: DeliveredProxy{ProxyID: "px_1", ExpiresAt: &expiry, ChargedCents: new(int64(300))}, State: "succeeded", PreviousExpiresAt: &expiry}},
			Operations: []FinishedOperation{{OperationID: "c-1/0001", State: StateCompleted}}},
	}
}
