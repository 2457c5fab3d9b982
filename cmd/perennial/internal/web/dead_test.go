package web

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"perennial/ledger"
	"perennial/ledger/fact"
)

// The list has a cursor. A single dead letter is shown completely up to a limit, whatever it
// contains.
func TestDeadLettersAreShownAsText(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "bob", Role: Viewer})
	h.main.letters = nil
	for n := range uint64(2*deadShown + 1) {
		h.main.letters = append(h.main.letters, Letter{Seq: 10 + n, Reason: fmt.Sprintf("reason %d.", 10+n), Subject: "perennial.commands.main.order.create", Text: "{", Bytes: 1, Published: noon})
	}
	h.main.letters[1].Text = `"\xff\xfe\x00\x1b[2Jwiped"` // quoted by the reader
	h.main.letters[2].Text = "{\n\t\"id\": \"\x1b]0;title\u202egnp\"}"
	h.main.letters[3].Text = strings.Repeat("é", deadText)
	h.main.letters[4].Text = ""
	pages, rows := 0, 0
	for at := "/a/main/dead"; at != "" && pages < 5; pages++ {
		code, page, _ := h.get(at)
		if code != http.StatusOK {
			t.Fatalf("%s: %d", at, code)
		}
		rows += strings.Count(page, "reason ")
		if _, next, more := strings.Cut(page, `<a href="/a/main/dead?after=`); more {
			at, _, _ = strings.Cut("/a/main/dead?after="+next, `"`)
		} else {
			at = ""
		}
	}
	if pages != 3 || rows != len(h.main.letters) {
		t.Errorf("%d letters on %d pages", rows, pages)
	}
	shows := func(seq int, text string) {
		t.Helper()
		code, page, _ := h.get(fmt.Sprintf("/a/main/dead?seq=%d", seq))
		if code != http.StatusOK || !strings.Contains(page, text) || strings.ContainsAny(page, "\x1b\x00\u202e") || strings.Contains(page, "form action=\"/a/main/change") || strings.Contains(page, "change/dead-drop") {
			t.Errorf("%d: %d %.3000s", seq, code, page)
		}
		if len(page) > 3*deadText {
			t.Errorf("%d: %d bytes", seq, len(page))
		}
	}
	shows(10, "{")
	shows(11, `\xff\xfe\x00\x1b[2Jwiped`)
	shows(12, "&#34;id&#34;: &#34; ]0;title gnp")
	shows(13, "perennial dead-letters show 13")
	shows(14, "It is empty")
	for _, seq := range []string{"9", "0", "-1", "x", "", "99999999999999999999999"} {
		if code, _, _ := h.get("/a/main/dead?seq=" + seq); code != http.StatusNotFound {
			t.Errorf("%q: %d", seq, code)
		}
	}
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	if _, page, _ := h.get("/a/main/dead?seq=10"); !strings.Contains(page, "change/dead-requeue") || !strings.Contains(page, "change/dead-drop") {
		t.Error("an operator can do nothing with it")
	}
}

// The form keeps the input and shows the reason. Only an operator has the form, and nothing is
// published.
func TestACorrectionThatIsRefusedStaysInItsForm(t *testing.T) {
	h := newRig(t)
	h.main.letters = append(h.main.letters, Letter{Seq: 8, Reason: "too long", Text: strings.Repeat("x", deadText+1), Bytes: deadText + 1, Published: noon})
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	_, page, _ := h.get("/a/main/dead?seq=7")
	wants(t, page, `spellcheck="false" autocomplete="off">
&lt;script&gt;`, "change/dead-correct", "change/dead-requeue")
	fields := map[string]string{"form": formOf(t, page), "id": "7", "content": `{"id": "</textarea>`, "reason": "the id was missing"}
	code, page := h.post(h.client, "/a/main/change/dead-correct", h.server.URL, fields)
	if code != http.StatusUnprocessableEntity || len(h.main.requests()) > 0 {
		t.Errorf("%d, %v asked", code, h.main.requests())
	}
	wants(t, page, "the command is no JSON", `{&#34;id&#34;: &#34;&lt;/textarea&gt;</textarea>`, `value="the id was missing"`)
	fields["reason"] = " "
	_, page = h.post(h.client, "/a/main/change/dead-correct", h.server.URL, fields)
	wants(t, page, "a reason is required")
	fields["id"] = "9"
	if code, _ = h.post(h.client, "/a/main/change/dead-correct", h.server.URL, fields); code != http.StatusNotFound {
		t.Errorf("a letter that is gone: %d", code)
	}
	if _, page, _ = h.get("/a/main/dead?seq=8"); strings.Contains(page, "textarea") {
		t.Error("a command that is cut can be corrected")
	}
	h.signIn(h.client, Person{Name: "bob", Role: Viewer})
	if _, page, _ = h.get("/a/main/dead?seq=7"); strings.Contains(page, "textarea") {
		t.Error("a viewer can correct it")
	}
}

func TestACorrectedDeadLetterLeadsToItsCommand(t *testing.T) {
	h := newRig(t)
	h.main.answer["dead.requeue"] = map[string]any{"changed": 1}
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	_, page, _ := h.get("/a/main/dead?seq=7")
	_, page = h.post(h.client, "/a/main/change/dead-correct", h.server.URL, map[string]string{"form": formOf(t, page), "id": "7", "content": `{"id": "shop 1"}`, "reason": "the id was missing"})
	wants(t, page, "Done: the corrected command was published (7).", `<a href="/a/main/operation?id=shop%201">shop 1</a>`)
}

// The limit is the number of bytes that the list must read.
func TestALongListOfDeadLettersIsCut(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "bob", Role: Viewer})
	const big = 128 << 10
	h.main.letters = nil
	for n := range uint64(deadShown) {
		h.main.letters = append(h.main.letters, Letter{Seq: n + 1, Reason: "reason", Bytes: big, Published: noon})
	}
	_, page, _ := h.get("/a/main/dead")
	if n := strings.Count(page, "reason"); n != deadBytes/big || !strings.Contains(page, fmt.Sprintf("after=%d", n)) {
		t.Errorf("%d letters of 128 KiB are read", n)
	}
}

// Runners of other accounts are not shown.
func TestRunnersAreThoseOfThePersonsAccounts(t *testing.T) {
	h := newRig(t)
	bob := h.browser()
	h.signIn(bob, Person{Name: "bob", Role: Viewer, Accounts: []string{"main"}})
	_, page, _ := h.getAs(bob, "/runners")
	if !strings.Contains(page, "host-a") || !strings.Contains(page, ">42<") || !strings.Contains(page, "this one") || strings.Contains(page, "host-b") || strings.Contains(page, "standby") || strings.Contains(page, "other") {
		t.Errorf("%s", page)
	}
	h.signIn(h.client, Person{Name: "ada", Role: Viewer})
	if _, page, _ = h.get("/runners"); !strings.Contains(page, "host-b") || !strings.Contains(page, "standby") || !strings.Contains(page, ">3<") {
		t.Errorf("%s", page)
	}
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.AccountPaused{Scope: "account", Cause: "person", Detail: "by root: maintenance"})
	}))
	if _, page, _ = h.get("/runners"); !strings.Contains(page, "paused by root since ") || !strings.Contains(page, ": maintenance") {
		t.Errorf("an account that is paused looks like one that works: %s", page)
	}
}

// The publisher knows only the ID.
func TestAnIDOfADeadLetterLeadsToIt(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "bob", Role: Viewer})
	h.main.letters = []Letter{{Seq: 7, Reason: "the command has no id", Text: `{"command_id":"lost-1"}`, Bytes: 23, Published: noon}}
	if code, page, _ := h.get("/a/main/operation?id=lost-1"); code != http.StatusSeeOther || !strings.Contains(page, "/a/main/dead?seq=7") {
		t.Errorf("%d:\n%s", code, page)
	}
	if code, _, _ := h.get("/a/main/operation?id=lost"); code != http.StatusNotFound {
		t.Errorf("a part of an id: %d", code)
	}
}

// The entry stays for a day, with the reason.
func TestWhatWasRefusedNeedsAPerson(t *testing.T) {
	h := newRig(t)
	h.signIn(h.client, Person{Name: "bob", Role: Viewer})
	check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.CommandRejected{Ref: fact.Ref{CommandID: "bad-1"}, Code: fact.RejectedInvalid, Reason: "field itemz is not known", ContentHash: "00"})
	}))
	wants(t, h.settled("/a/main/attention"), "bad-1", "field itemz is not known", `href="/a/main/operation?id=bad-1"`)
}
