package web

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"perennial/ledger"
	"perennial/ledger/fact"
)

// editionOfNow returns the current edition, the first message of /changes.
func (h *rig) editionOfNow() string {
	h.t.Helper()
	request, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, h.server.URL+"/changes", nil)
	check(h.t, err)
	response, err := h.client.Do(request)
	check(h.t, err)
	defer func() { _ = response.Body.Close() }()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if said, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			return said
		}
	}
	h.t.Fatal("nothing was said")
	return ""
}

// editionOf returns the edition in a page.
func (h *rig) editionOf(path string) string {
	h.t.Helper()
	_, page, _ := h.get(path)
	m := regexp.MustCompile(`data-edition="([^"]+)"`).FindStringSubmatch(page)
	if m == nil {
		h.t.Fatalf("no edition:\n%s", page)
	}
	return m[1]
}

// A change between the rendering of a page and its first message from /changes makes the page's
// edition outdated.
func TestAPageHearsWhatItMissed(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Viewer})
	const path = "/a/main/money"
	h.settled(path)
	is := h.editionOf(path)
	if now := h.editionOfNow(); now != is {
		t.Fatalf("nothing happened, and the page of %s is old: %s", is, now)
	}
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.LedgerRecorded{Movement: "top-up", AmountCents: 1, By: "ada", Reason: "x"})
	}))
	if now := h.editionOfNow(); now == is {
		t.Errorf("the ledger has grown, and the edition is %s still", now)
	}

	made := make(chan struct{})
	h.pages.figures.start(checkKey("verify", "main"), 0, false, func(context.Context) (any, error) {
		<-made
		return proof{Broken: "row 7"}, nil
	})
	next, is := h.pages.figures.next(), h.editionOf(path) // the page says that the proof is in progress
	close(made)
	<-next
	if now := h.editionOfNow(); now == is {
		t.Errorf("the proof has been made, and the edition is %s still", now)
	}
	if _, page, _ := h.get(path); !strings.Contains(page, "row 7") {
		t.Error("the page does not show it")
	}
}

// Dead letters are not in the ledger, so that the ledger reports no change.
func TestAnOpenPageFollowsDeadLetters(t *testing.T) {
	h := newRig(t)
	edition := func() string {
		h.wait(2 * lettersFresh)
		h.pages.frame.insight.edition(t.Context(), Person{Name: "ada"})
		h.pages.figures.work.Wait()
		return h.pages.frame.insight.edition(t.Context(), Person{Name: "ada"})
	}
	before := edition()
	if again := edition(); again != before {
		t.Errorf("nothing has changed: %s, then %s", before, again)
	}
	h.main.letters = append(h.main.letters, Letter{Seq: 8})
	if after := edition(); after == before {
		t.Error("a page is not told of a new dead letter")
	}
}

// A page follows changes until its session ends, and a shutdown must not wait that long.
func TestAStoppingServerDoesNotWaitForAnOpenPage(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "ada", Role: Viewer})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.server.URL+"/changes", nil)
	check(t, err)
	response, err := h.client.Do(request)
	check(t, err)
	defer func() { _ = response.Body.Close() }()
	h.server.Config.RegisterOnShutdown(h.pages.EndLive)
	check(t, h.server.Config.Shutdown(t.Context()))
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Error(err)
	}
}
