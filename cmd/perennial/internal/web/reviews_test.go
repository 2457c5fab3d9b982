package web

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"perennial/ledger"
	"perennial/ledger/fact"
)

// Reviews with the same cause are answered together. Each gets its own request with its own amount.
// If the runner refuses one, the others stay answered.
func TestSeveralReviewsAreAnsweredAtOnce(t *testing.T) {
	h := newRig(t)
	for i, cents := range []int64{300, 450} {
		id := fmt.Sprintf("alike-%d", i)
		check(t, h.main.Write(t.Context(), func(tx *ledger.Tx) error {
			return tx.Append(
				fact.CommandAccepted{Ref: fact.Ref{CommandID: id}, Kind: fact.KindRenewal, Content: []byte(`{}`), DurationDays: 30, EstimateCents: cents,
					Operations: []fact.Planned{{OperationID: id + "/0001", Chunk: "1", Generation: 1, Key: "key-" + id, ProxyIDs: []string{"px_" + id}}}},
				fact.OperationSending{Ref: fact.Ref{CommandID: id, OperationID: id + "/0001"}, Attempt: 1, Key: "key-" + id, Body: "{}", SentAt: noon, EstimateCents: cents},
				fact.OperationReview{Ref: fact.Ref{CommandID: id, OperationID: id + "/0001"}, Attempt: 1, Ambiguous: true, Code: "idempotency_unresolved", Reason: "frozen"})
		}))
	}
	h.signIn(h.client, Person{Name: "ada", Role: Operator})
	_, page, _ := h.get("/a/main/reviews")
	if strings.Count(page, `aria-labelledby="alike-`) != 2 || !strings.Contains(page, "<code>idempotency_unresolved</code>: 2, 7.50 USD") {
		t.Fatalf("what is alike is not together:\n%s", page)
	}
	var keys []string
	for _, m := range regexp.MustCompile(`name="review" value="([^"]*alike[^"]*)"`).FindAllStringSubmatch(page, -1) {
		keys = append(keys, strings.ReplaceAll(m[1], "&amp;", "&"))
	}
	send := func(form url.Values) (int, string) {
		t.Helper()
		form.Set("form", formOf(t, page))
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.server.URL+"/a/main/resolve", strings.NewReader(form.Encode()))
		check(t, err)
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Origin", h.server.URL)
		code, body, _ := h.do(h.client, request)
		return code, body
	}
	h.main.answer["resolve"] = map[string]any{"changed": 1}
	code, body := send(url.Values{"review": keys, "answer": {"at_stake"}, "reason": {"the provider's site shows both"}})
	if code != http.StatusOK || !strings.Contains(body, "2 of 2 answered") || !strings.Contains(body, "reviews resolve alike-1/0001 --charged 4.50 --by ada") {
		t.Errorf("%d\n%s", code, body)
	}
	asked := h.main.requests()
	for i, cents := range []float64{300, 450} {
		q := asked[len(asked)-2+i]
		if q.verb != "resolve" || q.question["id"] != fmt.Sprintf("alike-%d/0001", i) || q.question["charged_cents"] != cents || q.question["by"] != "ada" {
			t.Errorf("%+v", q)
		}
	}
	delete(h.main.answer, "resolve")
	if _, body = send(url.Values{"review": append(keys[:1], "nonsense"), "answer": {"not_charged"}, "reason": {"none"}}); !strings.Contains(body, "0 of 2 answered") || !strings.Contains(body, "no to resolve") || !strings.Contains(body, "does not name a review") {
		t.Errorf("refusals are not said:\n%s", body)
	}
	for what, form := range map[string]url.Values{
		"nothing chosen": {"answer": {"not_charged"}, "reason": {"r"}},
		"no reason":      {"review": keys[:1], "answer": {"not_charged"}},
		"too many":       {"review": make([]string, answeredAtOnce+1), "answer": {"not_charged"}, "reason": {"r"}},
	} {
		before := len(h.main.requests())
		if code, _ := send(form); code != http.StatusUnprocessableEntity || len(h.main.requests()) != before {
			t.Errorf("%s: %d", what, code)
		}
	}
}
