package cli

import (
	"testing"

	"perennial/jobs/decide"
	"perennial/ledger"
)

// An operator who is told of a pause alone does not know what ends it.
func TestTheDoctorSaysOfEachPauseWhatEndsIt(t *testing.T) {
	for _, cause := range append(decide.PauseCauses(), ledger.CauseRestored) {
		if endsPause[cause] == "" && cause != decide.CauseThrottled {
			t.Errorf("nothing is said of %s", cause)
		}
	}
}
