package cli

import (
	"testing"

	"perennial/jobs/decide"
	"perennial/ledger"
)

// doctor says what ends a pause, and not only that there is one.
func TestTheDoctorSaysOfEachPauseWhatEndsIt(t *testing.T) {
	for _, cause := range append(decide.PauseCauses(), ledger.CauseRestored) {
		if endsPause[cause] == "" && cause != decide.CauseThrottled {
			t.Errorf("nothing is said of %s", cause)
		}
	}
}
