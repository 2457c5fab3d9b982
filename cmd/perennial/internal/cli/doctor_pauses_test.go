package cli

import (
	"testing"

	"perennial/jobs/decide"
	"perennial/ledger"
)

// The doctor says what ends each pause, and not only that it exists.
func TestTheDoctorSaysOfEachPauseWhatEndsIt(t *testing.T) {
	for _, cause := range append(decide.PauseCauses(), ledger.CauseRestored) {
		if endsPause[cause] == "" && cause != decide.CauseThrottled {
			t.Errorf("nothing is said of %s", cause)
		}
	}
}
