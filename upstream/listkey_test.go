package upstream_test

import (
	"slices"
	"strings"
	"testing"

	"perennial/upstream"
)

const (
	proxyEntry = `{"proxy_id":"px_1","status":"active","host":"h.invalid","expires_at":null}`
	orderEntry = `{"order_no":"o_1","status":"paid","total_cents":5}`
)

// A reply may have an additional field, even an array of remarks about proxies or orders.
func TestTrap30AnArrayBesideTheListMayNameItsEntries(t *testing.T) {
	beside := strings.NewReplacer("ENTRY", "\x00", "ID", "\x01")
	for page, want := range map[string]string{ // -: malformed
		`"alerts":[{ID,"message":"m"}],"list":[ENTRY]`:                      "one",
		`"list":[ENTRY],"alerts":[{ID,"message":"m"},{ID,"message":"n"}]`:   "one",
		`"alerts":[{ID,"status":"late"}],"list":[ENTRY]`:                    "one",
		`"alerts":[{ID,"message":"m"}],"tags":["x"],"list":[ENTRY],"b":[]`:  "one",
		`"list":[ENTRY],"again":[ENTRY]`:                                    "-",
		`"alerts":[{ID,"message":"m"}],"other":[{ID,"text":"t"}],"c":["x"]`: "-",
	} {
		page = "{" + beside.Replace(page) + `,"has_more":false}`
		of := func(entry, id string) string {
			return strings.NewReplacer("\x00", entry, "\x01", id).Replace(page)
		}
		proxies, errP := getting(t, of(proxyEntry, `"proxy_id":"px_2"`)).ProxiesPage(t.Context(), upstream.PageRequest{})
		orders, errO := getting(t, of(orderEntry, `"order_no":"o_2"`)).OrdersPage(t.Context(), upstream.PageRequest{})
		if want == "-" {
			if errP == nil || errO == nil {
				t.Errorf("%s: %+v %+v", page, proxies, orders)
			}
			continue
		}
		if errP != nil || errO != nil || len(proxies.Items) != 1 || proxies.Items[0].ProxyID != "px_1" || len(orders.Items) != 1 || orders.Items[0].OrderNo != "o_1" {
			t.Errorf("%s: %+v %v, %+v %v", page, proxies, errP, orders, errO)
		}
	}
}

// If a page alone does not show which array is the list, an earlier page decides.
func TestTrap30AListKeepsTheNameItHad(t *testing.T) {
	for name, c := range map[string]struct {
		pages []string
		want  []int // -1: malformed
	}{
		"an empty list beside remarks":            {[]string{`"list":[ENTRY]`, `"list":[],"alerts":[{"proxy_id":"px_2","status":"late"}]`}, []int{1, 0}},
		"an empty list beside remarks, unknown":   {[]string{`"list":[],"alerts":[{"proxy_id":"px_2","message":"m"}]`}, []int{-1}},
		"two alike":                               {[]string{`"list":[ENTRY]`, `"list":[ENTRY,ENTRY],"expiring":[ENTRY]`}, []int{1, 2}},
		"two alike, unknown":                      {[]string{`"list":[ENTRY,ENTRY],"expiring":[ENTRY]`}, []int{-1}},
		"another name":                            {[]string{`"list":[ENTRY]`, `"proxies":[ENTRY,ENTRY]`}, []int{1, 2}},
		"another name, and the old one is empty":  {[]string{`"list":[ENTRY]`, `"list":[],"proxies":[ENTRY,ENTRY]`}, []int{1, 2}},
		"remarks were taken for it":               {[]string{`"alerts":[{"proxy_id":"px_2","status":"late"}]`, `"alerts":[{"proxy_id":"px_2","status":"late"}],"list":[ENTRY,ENTRY]`}, []int{1, 2}},
		"an empty list has no name to be kept by": {[]string{`"list":[],"tags":[]`, `"list":[ENTRY],"tags":[]`, `"list":[],"tags":[]`}, []int{0, 1, 0}},
	} {
		at := 0
		client := pagesServer(t, func(string) (int, string) {
			at++
			return 200, envelope("ok", "{"+strings.ReplaceAll(c.pages[at-1], "ENTRY", proxyEntry)+`,"has_more":false}`)
		})
		var got []int
		for range c.pages {
			page, err := client.ProxiesPage(t.Context(), upstream.PageRequest{})
			if err != nil {
				got = append(got, -1)
				continue
			}
			got = append(got, len(page.Items))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
