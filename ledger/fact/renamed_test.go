package fact

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

// Journals have facts of every version.
func TestAFieldIsReadUnderItsFormerName(t *testing.T) {
	slot := someTime
	for factType, x := range map[string]struct {
		former string
		want   Fact
	}{
		"ledger.discrepancy": {`{"kind":"wallet","amount_cents":9007199254740993,"explanation":"x"}`, LedgerDiscrepancy{Finding: "wallet", AmountCents: 9007199254740993, Explanation: "x"}},
		"ledger.recorded":    {`{"kind":"top-up","cents":5,"by":"a","reason":"b"}`, LedgerRecorded{Movement: "top-up", AmountCents: 5, By: "a", Reason: "b"}},
		"proxy.skipped": {
			`{"command_id":"c","skipped":[{"reason":"r","proxy_ids":["expires_at"],"expires_at":{"expires_at":"` + someTime.Format(time.RFC3339Nano) + `"}}]}`,
			ProxySkipped{Ref: Ref{CommandID: "c"}, Skipped: []SkippedFor{{Reason: "r", ProxyIDs: []string{"expires_at"}, ExpiresAt: map[string]time.Time{"expires_at": someTime}}}},
		},
		"sweep.finished": {`{"schedule":"s","slot":"` + slot.Format(time.RFC3339Nano) + `","plan":"p","commands":3}`, SweepFinished{Schedule: "s", Slot: slot, Plan: "p", Published: 3}},
		"sweep.held": {
			`{"schedule":"s","slot":"` + slot.Format(time.RFC3339Nano) + `","plan":"p","reason":"r","left_out":1,"shortfall_cents":2,"wallet_cents":7}`,
			SweepHeld{Schedule: "s", Slot: slot, Plan: "p", Reason: "r", LeftOut: 1, ShortfallCents: 2, ProviderCents: new(int64(7))},
		},
		"sweep.planned": {
			`{"schedule":"s","slot":"` + slot.Format(time.RFC3339Nano) + `","plan":"p","due":1,"estimate_cents":2,"commands":[{"proxies":1}],"planned":[{"command_id":"c","proxies":4,"estimate_cents":2}],"left":{"proxies":8}}`,
			SweepPlanned{
				Schedule: "s", Slot: slot, Plan: "p", Due: 1, EstimateCents: 2, Commands: []json.RawMessage{json.RawMessage(`{"proxies":1}`)},
				Planned: []PlannedCommand{{CommandID: "c", Proxies: 4, EstimateCents: 2}}, Left: &SweepLeft{Proxies: 8},
			},
		},
	} {
		got, err := Decode(factType, []byte(x.former))
		if err != nil || !reflect.DeepEqual(got, x.want) {
			t.Errorf("%s: %v\n%+v\n%+v", factType, err, got, x.want)
		}
		now, err := json.Marshal(x.want)
		if again, errNow := Decode(factType, now); err != nil || errNow != nil || !reflect.DeepEqual(again, x.want) {
			t.Errorf("%s: %v %v\n%s", factType, err, errNow, now)
		}
	}
	for factType := range renamed {
		if _, err := Decode(factType, []byte(`{"reason":"r","proxies":1,"other":2}`)); err == nil {
			t.Errorf("%s: a field that it never had is taken", factType)
		}
	}
}
