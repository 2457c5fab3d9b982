package upstream

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// BenchmarkProxiesPage reads a page of 200 proxies.
func BenchmarkProxiesPage(b *testing.B) {
	var items strings.Builder
	for i := range 200 {
		if i > 0 {
			items.WriteString(",")
		}
		fmt.Fprintf(&items, `{"proxy_id":"px_%d","status":"active","ip_type":"isp","country_code":"US","region":"Dallas","line_name":"premium","protocol":"socks5",`+
			`"host":"198.51.100.7","port":1080,"username":"user%d","password":"secret%d","starts_at":"2026-11-01T00:00:00Z","expires_at":"2026-12-01T00:00:00Z"}`, i, i, i)
	}
	body := `{"success":true,"code":"ok","message":"","trace_id":"trc_1","data":{"proxies":[` + items.String() + `],"has_more":false,"next_page_token":""}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(body))
	}))
	defer server.Close()
	client, err := New(Config{BaseURL: server.URL, AppID: "sbx_app_a", Secret: "secret-of-the-bench"})
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	for b.Loop() {
		page, err := client.ProxiesPage(b.Context(), PageRequest{Size: 200})
		if err != nil || len(page.Items) != 200 {
			b.Fatal(len(page.Items), err)
		}
	}
}
