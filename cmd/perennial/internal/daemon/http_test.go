package daemon

import (
	"bytes"
	"strings"
	"testing"

	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/testdata/hostile"
)

// FuzzHostileTextOnPages: whatever text of others is shown, it makes no tag.
func FuzzHostileTextOnPages(f *testing.F) {
	hostile.Fuzz(f, func(t *testing.T, text string) {
		if text == "" {
			return // nothing is shown for it
		}
		if got, want := strings.Count(shownOnPage(t, text), "<"), strings.Count(shownOnPage(t, "plain"), "<"); got != want {
			t.Errorf("%q makes tags on the dashboard", text)
		}
	})
}

func shownOnPage(t *testing.T, text string) string {
	t.Helper()
	o := inspect.OperationStatus{OperationID: text, State: "review", Reason: text}
	v := dashboardAccount{Operations: []inspect.OperationStatus{o}, Counts: map[fact.State]int64{fact.State(text): 1}}
	v.Account, v.AccountID, v.NotReady, v.Environment = text, text, text, text
	v.Paused = []ledger.Pause{{Scope: text, Cause: text, Detail: text}}
	var page bytes.Buffer
	if err := dashboardPage.Execute(&page, []dashboardAccount{v}); err != nil {
		t.Fatal(err)
	}
	return page.String()
}
