package cli

import (
	"testing"

	"perennial/jobs/inspect"
)

// What an operation cost may not be known; that it was charged still books something.
func TestAnAnswerOfAnUnknownAmountDoesNotBookNothing(t *testing.T) {
	rows := answerRows([]inspect.Answer{{Say: "--charged CENTS"}, {Say: "--charged CENTS --order ord_1"}, {Say: "--not-charged"}}, "USD")
	for i, want := range []string{"CENTS, as charged", "CENTS, as charged", "nothing"} {
		if got := rows[i][2]; got != want {
			t.Errorf("%s books %q, want %q", rows[i][0], got, want)
		}
	}
}
