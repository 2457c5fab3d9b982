package web

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// revealing returns a rig whose provider gives the credentials of px_1.
func revealing(t *testing.T) *rig {
	t.Helper()
	h := newRig(t)
	h.main.provider = []Credential{NewCredential("Username", "user-px_1"), NewCredential("Password", password)}
	h.main.answer["reveal"] = map[string]int{"changed": 1}
	return h
}

// A credential prints as nothing in any format and inside any value.
func TestACredentialPrintsAsNothing(t *testing.T) {
	v := revealedView{Shown: []Credential{NewCredential("Password", password)}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d"} {
		if text := fmt.Sprintf(format, v); strings.Contains(text, password) {
			t.Errorf("%s: %s", format, text)
		}
	}
}

const password = "pass-px_1-secret"

func (h *rig) form(client *http.Client) string {
	_, page, _ := h.getAs(client, "/")
	return formOf(h.t.(*testing.T), page)
}

// Only an operator with a reason sees the credentials, only in the answer to the form, and nowhere
// else.
func TestCredentialsAreRevealedOnceBehindTheirFact(t *testing.T) {
	h := revealing(t)
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	fields := map[string]string{"form": h.form(h.client), "id": "px_1", "reason": "a customer cannot connect"}
	code, page := h.post(h.client, "/a/main/reveal", "", fields)
	if code != http.StatusOK || !strings.Contains(page, password) || !strings.Contains(page, "user-px_1") || !strings.Contains(page, "perennial proxies get px_1 --reveal --account main") || !strings.Contains(page, "data-once") {
		t.Fatalf("%d %s", code, page)
	}
	got := h.main.requests()
	last := got[len(got)-1]
	if last.verb != "reveal" || last.question["by"] != "ada" || last.question["proxy_id"] != "px_1" || last.question["reason"] != "a customer cannot connect" {
		t.Errorf("%v", last)
	}
	if code, page, _ := h.get("/a/main/reveal?id=px_1"); code != http.StatusMethodNotAllowed || strings.Contains(page, password) {
		t.Errorf("loaded again: %d", code)
	}
	for _, path := range append(paths, "/a/main/proxy?id=px_1") {
		if _, page, header := h.get(path); strings.Contains(page, password) || header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s shows it, or is kept", path)
		}
	}
	if strings.Contains(h.log.String(), password) || !strings.Contains(h.log.String(), "credentials of a proxy were asked for") {
		t.Errorf("the log: %s", h.log)
	}
}

// A reveal needs a fact, a reason and the right to it. A failing provider is reported.
func TestNothingIsRevealed(t *testing.T) {
	h := revealing(t)
	viewer, elsewhere := h.browser(), h.browser()
	h.signIn(viewer, Person{Name: "bob", Role: Viewer})
	h.signIn(elsewhere, Person{Name: "eve", Role: Operator, Accounts: []string{"other"}})
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	refused := func(what string, client *http.Client, code int, fields map[string]string) {
		t.Helper()
		fields["form"] = h.form(client)
		if got, page := h.post(client, "/a/main/reveal", "", fields); got != code || strings.Contains(page, password) {
			t.Errorf("%s: %d %s", what, got, page)
		}
	}
	refused("a viewer", viewer, http.StatusForbidden, map[string]string{"id": "px_1", "reason": "x"})
	refused("of another account", elsewhere, http.StatusNotFound, map[string]string{"id": "px_1", "reason": "x"})
	refused("no reason", h.client, http.StatusUnprocessableEntity, map[string]string{"id": "px_1", "reason": "  "})
	refused("no proxy", h.client, http.StatusUnprocessableEntity, map[string]string{"reason": "x"})
	delete(h.main.answer, "reveal")
	refused("no fact", h.client, http.StatusUnprocessableEntity, map[string]string{"id": "px_1", "reason": "x"})
	if h.main.revealed != 0 {
		t.Fatalf("the provider was asked %d times", h.main.revealed)
	}
	h.main.answer["reveal"] = map[string]int{"changed": 1}
	h.main.provider = nil
	refused("the provider fails", h.client, http.StatusBadGateway, map[string]string{"id": "px_1", "reason": "x"})
}

// The limit stops a script from reading the whole fleet. A refused reveal records no fact.
func TestRevealsAreBounded(t *testing.T) {
	h := revealing(t)
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	limited, form := 0, h.form(h.client)
	for range revealsInARow + 5 {
		if code, _ := h.post(h.client, "/a/main/reveal", "", map[string]string{"form": form, "id": "px_1", "reason": "x"}); code == http.StatusTooManyRequests {
			limited++
		}
	}
	facts := 0
	for _, x := range h.main.requests() {
		if x.verb == "reveal" {
			facts++
		}
	}
	if limited < 3 || facts != revealsInARow+5-limited || h.main.revealed != facts {
		t.Errorf("%d were refused, %d facts, %d reads", limited, facts, h.main.revealed)
	}
}
