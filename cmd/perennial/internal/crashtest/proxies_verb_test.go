package crashtest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"perennial/cmd/perennial/internal/verbs"
)

// The pages list bought and renewed proxies.
func TestAViewerListsTheProxiesPageByPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	_, line := w.run()
	w.readySays(line, ready)
	client := dial(t, line.NATS)
	bought, code, err := client.request("order.create", `{"id":"buy","items":[{"offer_code":"off_us_1","quantity":3}],"duration_days":30}`, patience)
	if err != nil || code != "" {
		t.Fatalf("%s %v", code, err)
	}
	if _, code, err := client.request("proxy.renew", `{"id":"keep","proxy_ids":["px_1"],"duration_days":30}`, patience); err != nil || code != "" {
		t.Fatalf("%s %v", code, err)
	}
	found := map[string]verbs.ListedProxy{}
	for after, pages := "", 0; after != "" || pages == 0; pages++ {
		var page verbs.ProxiesAnswer
		if err := json.Unmarshal([]byte(client.verb("proxies", fmt.Sprintf(`{"after":%q,"limit":2}`, after))), &page); err != nil {
			t.Fatal(err)
		}
		if len(page.Proxies) == 0 || len(page.Proxies) > 2 {
			t.Fatalf("page %d has %d proxies", pages, len(page.Proxies))
		}
		for _, p := range page.Proxies {
			found[p.ProxyID] = p
		}
		after = page.Next
	}
	for _, line := range bought.Lines {
		if p := found[line.ProxyID]; p.ExpiresAt == nil || !p.ExpiresAt.Equal(*line.ExpiresAt) || p.CountryCode != "US" {
			t.Errorf("%s was bought: %+v", line.ProxyID, p)
		}
	}
	if p := found["px_1"]; p.ExpiresAt != nil || p.ExpiredBeforeRenewalAt == nil || p.SeenAt != nil ||
		p.ExpectedExpiresAt == nil || p.ExpectedExpiresAt.Sub(*p.ExpiredBeforeRenewalAt) != 30*24*time.Hour {
		t.Errorf("px_1 was renewed, and not read since: %+v", p)
	}
}
