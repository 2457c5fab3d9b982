package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"perennial/upstream"
)

func TestTrap30TheListIsTheArrayOfItsEntries(t *testing.T) {
	item := `{"proxy_id":"px_1","order_no":"o","status":"active"}`
	for data, want := range map[string]int{ // -1: malformed
		`{"anything":[` + item + `],"has_more":false}`:                                  1,
		`{"a":[` + item + `],"b":[],"has_more":false}`:                                  1,
		`{"notices":[{"text":"x"}],"a":[` + item + `,` + item + `],"has_more":false}`:   2,
		`{"tags":["x","y"],"numbers":[1],"a":[` + item + `],"z":[[]],"has_more":false}`: 1,
		`{"a":[],"b":[],"has_more":false}`:                                              0,
		`{"a":[],"notices":[{"text":"x"}],"has_more":false}`:                            0,
		`{"a":[` + item + `],"b":[` + item + `],"has_more":false}`:                      -1,
		`{"a":[{"text":"x"},` + item + `],"has_more":false}`:                            1, // and an unusable entry
		`{"notices":[{"text":"x"}],"has_more":false}`:                                   -1,
		`{"tags":["x"],"has_more":false}`:                                               -1,
		`{"has_more":false,"page_size":1}`:                                              -1,
		`{"a":null,"has_more":false,"page_size":1}`:                                     -1,
		`{"a":[` + item + `],"has_more":true}`:                                          -1,
		`{"a":[` + item + `]}`:                                                          -1,
		`{"a":[` + item + `],"has_more":true,"next_page_token":5}`:                      -1,
		`{"a":[{"proxy_id":null,"order_no":null}],"b":[` + item + `],"has_more":false}`: 1,
	} {
		proxies, errP := getting(t, data).ProxiesPage(context.Background(), upstream.PageRequest{})
		orders, errO := getting(t, data).OrdersPage(context.Background(), upstream.PageRequest{})
		if want < 0 && (errP == nil || errO == nil) || want >= 0 && (errP != nil || errO != nil || len(proxies.Items) != want || len(orders.Items) != want) {
			t.Errorf("%s: %d, %v, %d, %v", data, len(proxies.Items), errP, len(orders.Items), errO)
		}
	}
	if _, err := getting(t, `{"other":[],"has_more":false}`).OffersPage(context.Background(), upstream.OfferFilter{}, upstream.PageRequest{}); err == nil {
		t.Error("offers are under the key offers")
	}
}

// Every list is read, whatever the largest page size is. The client remembers a size that works.
func TestTrap53APageSizeThatIsRefusedIsLeftOut(t *testing.T) {
	for _, most := range []int{0, 1, 50, 199} { // 0: every size is rejected
		var asked []string
		c := pagesServer(t, func(query string) (int, string) {
			asked = append(asked, query)
			size, named := 1, strings.Contains(query, "page_size=")
			if _, after, ok := strings.Cut(query, "page_size="); ok {
				size, _ = strconv.Atoi(strings.SplitN(after, "&", 2)[0])
			}
			if named && size > most {
				return http.StatusUnprocessableEntity, envelope("validation_error", `{"errors":{"page_size":["too large"]}}`)
			}
			return http.StatusOK, envelope("ok", `{"offers":[],"l":[],"has_more":false}`)
		})
		read := map[string]func() error{
			"proxies": func() error { _, err := c.ProxiesPage(t.Context(), upstream.PageRequest{Size: 200}); return err },
			"orders":  func() error { _, err := c.OrdersPage(t.Context(), upstream.PageRequest{Size: 200}); return err },
			"offers": func() error {
				_, err := c.OffersPage(t.Context(), upstream.OfferFilter{Quantity: 3}, upstream.PageRequest{Size: 200})
				return err
			},
		}
		for name, page := range read {
			for n := range 2 {
				before := len(asked)
				if err := page(); err != nil {
					t.Errorf("%s, at most %d: %v", name, most, err)
				}
				if n == 1 && len(asked) != before+1 {
					t.Errorf("%s, at most %d: asked again: %v", name, most, asked[before:])
				}
			}
		}
	}
}

func TestTrap53ARefusalThatIsNotTheSizesIsPassedOn(t *testing.T) {
	c := pagesServer(t, func(string) (int, string) {
		return http.StatusUnprocessableEntity, envelope("validation_error", `{"errors":{"quantity":["too large"]}}`)
	})
	_, err := c.OffersPage(t.Context(), upstream.OfferFilter{Quantity: 3}, upstream.PageRequest{Size: 200})
	if !errors.Is(err, upstream.CodeValidationError) || upstream.RestartsList(err) {
		t.Error(err)
	}
}

// The provider lowers its largest size while a list is read, so the list restarts.
func TestTrap53ASizeThatIsRefusedInTheMiddleBeginsAgain(t *testing.T) {
	lowered := false
	c := pagesServer(t, func(query string) (int, string) {
		large := query == "page_size=200"
		switch {
		case large && !lowered:
			lowered = true
			return http.StatusOK, pageOf("t1", "px_1")
		case query == "page_size=200&page_token=t1" || large:
			return http.StatusUnprocessableEntity, envelope("validation_error", `{}`)
		case query == "page_size=100":
			return http.StatusOK, pageOf("t2", "px_1")
		}
		return http.StatusOK, pageOf("", "px_2")
	})
	got := ""
	for p, err := range c.Proxies(t.Context(), 200) {
		if err != nil {
			t.Fatal(err)
		}
		got += p.ProxyID
	}
	if got != "px_1px_2" {
		t.Error(got)
	}
}

// pagesServer serves the proxy pages that the given function returns for a query.
func pagesServer(t testing.TB, pages func(query string) (int, string)) *upstream.Client {
	return clientOf(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		status, body := pages(r.URL.RawQuery)
		answering(status, body)(w, r)
	}))
}

func collect(c *upstream.Client) (got string, err error) {
	for p, e := range c.Proxies(context.Background(), 2) {
		if e != nil {
			return got, e
		}
		got += p.ProxyID
	}
	return got, nil
}

func pageOf(next string, ids ...string) string {
	var items []string
	for _, id := range ids {
		items = append(items, fmt.Sprintf(`{"proxy_id":%q}`, id))
	}
	return envelope("ok", fmt.Sprintf(`{"proxies":[%s],"page_size":2,"has_more":%t,"next_page_token":%q}`, strings.Join(items, ","), next != "", next))
}

func TestTrap31PagesRestartAndEnd(t *testing.T) {
	refusals := 0
	got, err := collect(pagesServer(t, func(q string) (int, string) {
		switch q {
		case "page_size=2":
			return 200, pageOf("t/1+", "a", "b")
		case "page_size=2&page_token=t%2F1%2B":
			return 200, pageOf("t2", "b", "c")
		case "page_size=2&page_token=t2":
			if refusals++; refusals < 3 {
				return 400, envelope("invalid_page_token", "{}")
			}
			return 200, pageOf("", "d")
		}
		return 500, q
	}))
	if err != nil || got != "abcd" {
		t.Errorf("%q %v", got, err)
	}
	if _, err = collect(pagesServer(t, func(q string) (int, string) {
		if q == "page_size=2" {
			return 200, pageOf("t", "a")
		}
		return 400, envelope("invalid_page_token", "{}")
	})); !errors.Is(err, upstream.CodeInvalidPageToken) {
		t.Errorf("restarts for ever: %v", err)
	}
	if _, err = collect(pagesServer(t, func(string) (int, string) { return 200, pageOf("same", "a") })); !errors.Is(err, upstream.ErrPageLoop) {
		t.Errorf("loop: %v", err)
	}
	n := 0
	if _, err = collect(pagesServer(t, func(string) (int, string) { n++; return 200, pageOf(fmt.Sprint(n)) })); !errors.Is(err, upstream.ErrPageLoop) {
		t.Errorf("empty pages: %v", err)
	}
}

// The list has 40 pages of new ids, a restart that reads them again, and then the same page with
// new tokens.
func TestTrap67FreshTokensAreNoProgress(t *testing.T) {
	const full = 40
	n, refused := 0, false
	got, err := collect(pagesServer(t, func(q string) (int, string) {
		if n++; n > 4*full {
			return 500, "the walk does not end"
		}
		_, token, _ := strings.Cut(q, "page_token=")
		at, _ := strconv.Atoi(token)
		if at == full-1 && !refused {
			refused = true
			return 400, envelope("invalid_page_token", "{}")
		}
		return 200, pageOf(strconv.Itoa(at+1), string(rune('A'+min(at, full))))
	}))
	if !errors.Is(err, upstream.ErrPageLoop) || utf8.RuneCountInString(got) != full+1 || n > 3*full {
		t.Errorf("%d requests, %q: %v", n, got, err)
	}
}
