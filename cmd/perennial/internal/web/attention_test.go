package web

import (
	"strings"
	"testing"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/ledger"
	"perennial/ledger/fact"
)

// TestEveryPageHasTheNavigationWithItsNumber: the number is the runner's, and unknown where
// it does not say it; the list has one action for each thing.
func TestEveryPageHasTheNavigationWithItsNumber(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	if page := h.settled("/a/main/money"); !strings.Contains(page, `Attention <span class="badge unknown">`) {
		t.Errorf("a number that is not known is shown:\n%s", page)
	}
	h = newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	one := int64(1)
	h.main.answer["summary"] = verbs.Summary{Needs: verbs.Needs{Total: 4, Reviews: 1, Plans: &one, DeadLetters: &one, Uncovered: &one}}
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(
			fact.SweepPlanned{Schedule: "keep", Slot: noon, Plan: "9f86d081", Due: 3, EstimateCents: 1080},
			fact.AccountPaused{Scope: "account", Cause: "person", Detail: "maintenance"})
	}))
	for _, path := range paths {
		if !strings.HasPrefix(path, "/a/main/") {
			continue
		}
		_, page, _ := h.get(path)
		for _, name := range []string{"overview", "operations", "attention", "schedules", "proxies", "calendar", "money", "log"} {
			if !strings.Contains(page, `<a href="/a/main/`+name+`"`) {
				t.Errorf("%s has no link to %s", path, name)
			}
		}
		if !strings.Contains(page, `</span>4<span class="heard"> need you`) || strings.Count(page, `aria-current="page"`) != 1 {
			t.Errorf("%s does not say that 4 need a person, or where it is", path)
		}
	}
	page := h.settled("/a/main/attention")
	wants(t, page, `href="/a/main/operation?id=r1%2F0001#review">Resolve`, "at an unknown price", `href="/a/main/schedule?id=keep">Review plan`, "The plan needs approval: 10.80 USD, 3 proxies due.",
		`href="/a/main/dead">Open`, `href="/a/main/proxies?uncovered=1">Open`, "maintenance", "Resume the account")
	if strings.Count(page, "<li>") != 4 {
		t.Errorf("not one entry for each:\n%s", page)
	}
}
