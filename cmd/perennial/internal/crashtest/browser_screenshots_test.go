//go:build check

package crashtest

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"perennial/cmd/perennial/internal/browsertest"
	"perennial/cmd/perennial/internal/daemon"
)

// shotsDir is where `make screenshots` writes the pictures of docs/images.
var shotsDir = flag.String("shots", "", "directory that the pictures are written to; empty: one that ends with the test")

// shotHeight limits a picture to the top of the page.
const shotHeight = 1600

// region is one location in the pictured fleet.
type region struct {
	name, country, region string
	proxies, cents        int
}

// fleetInPictures is 60 proxies that expire over 45 days. No schedule renews the proxies in New
// York.
var fleetInPictures = []region{
	{"dallas", "US", "Dallas", 22, 300}, {"london", "GB", "London", 18, 340}, {"frankfurt", "DE", "Frankfurt", 14, 360}, {"newyork", "US", "New York", 6, 320},
}

func fixtureInPictures() string {
	var b strings.Builder
	fmt.Fprintf(&b, "accounts:\n  - {account_id: acc_alpha, email: alpha@example.com, wallet: {currency: USD, sandbox_cents: 18000}, keys: [{app_id: %s, secret: %q}]}\noffers:\n", worldAppID, worldSecret)
	for n, r := range fleetInPictures {
		fmt.Fprintf(&b, "  - {offer_code: off_%s, name: Static ISP, country_code: %s, country_name: X, region: %s, line_name: premium, ip_type: isp, protocol: socks5, unit_price_cents: %d, base_duration_days: 30, duration_days: [30, 60, 90], max_quantity: 50, cidrs: [\"198.51.%d.0/24\"], stock: 1000}\n",
			r.name, r.country, r.region, r.cents, 100+n)
	}
	b.WriteString("proxies:\n")
	for k, r := range fleetInPictures {
		for n := range r.proxies {
			fmt.Fprintf(&b, "  - {proxy_id: px_%s_%02d, account_id: acc_alpha, environment: sandbox, offer_code: off_%s, expires_in: %dh}\n", r.name, n+1, r.name, 30+k*7+n*45*24/r.proxies)
		}
	}
	return b.String()
}

// inPictures is a small account on an ordinary day. It has orders, scheduled and manual renewals, a
// plan that waits for approval, a renewal whose reply was lost, and a dead letter.
func inPictures(t testing.TB) (*world, daemon.ReadyLine) {
	w := newWorldOf(t, fixtureInPictures())
	w.configure("", `schedules:
  - {name: shop-daily, cron: "30 5 * * *", timezone: Europe/London, renew_before: 96h, duration_days: 30, match: {region: [Dallas, London]}}
  - {name: ads-weekly, cron: "0 9 * * 1", timezone: Europe/Berlin, renew_before: 240h, duration_days: 30, approve_over_cents: 800, match: {region: [Frankfurt]}}
`)
	_, line := w.run()
	awaitReady(t, line)
	w.mustCLI("order", "--item", "off_dallas=3", "--id", "shop-spare-ips", "--label", "team=shop", "--wait")
	w.mustCLI("order", "--item", "off_frankfurt=2", "--days", "60", "--id", "ads-launch", "--label", "team=ads", "--wait")
	w.mustCLI("renew", "px_dallas_05", "px_dallas_06", "--id", "shop-checkout", "--label", "team=shop", "--wait")
	w.mustCLI("renew", "px_frankfurt_09", "--days", "60", "--id", "ads-berlin", "--label", "team=ads", "--wait")
	w.mustCLI("renew", "px_newyork_05", "--id", "ads-new-york-pilot", "--label", "team=ads", "--wait")
	w.cli("order", "--item", "off_newyork=4", "--id", "ads-new-york", "--label", "team=ads", "--max-total-cents", "900", "--wait")
	w.mustCLI("sweep", "run", "shop-daily", "--by", "ada", "--reason", "before the weekend")
	for _, id := range []string{"px_dallas_02", "px_london_01"} {
		await(t, id+" is renewed", func() bool { return w.renewals()[id] == 1 })
	}
	w.fault(map[string]any{"method": "POST", "path": "/api/v1/proxies/renew", "fault": "code", "code": "proxy_endpoint_unavailable", "http_status": 503, "executed": true})
	w.cli("renew", "px_newyork_01", "px_newyork_02", "--id", "ads-last-minute", "--label", "team=ads", "--wait")
	w.cli("sweep", "run", "ads-weekly", "--by", "ada", "--reason", "before the weekend")
	w.deadLetters(line, `{"proxy_ids":["px_london_04"],"duration_days":30}`)
	return w, line
}

// settledPage waits until every figure and every chart of a page is there.
func settledPage() action {
	return holds(`document.readyState === "complete" && document.querySelector("footer") !== null && !/being (counted|made)|In progress since|A new one is in progress|has not answered yet/i.test(document.body.innerText)
		&& [...document.querySelectorAll("table[data-chart]")].filter((t) => t.querySelector("th[data-label]")).length === Number(document.documentElement.dataset.charts ?? 0)`)
}

// shot takes a picture of the whole page, or of its top.
func shot(ctx context.Context, t testing.TB, width int64) []byte {
	t.Helper()
	does(ctx, t, settledPage())
	high := min(int64(shotHeight), browsertest.Says[int64](ctx, t, "document.documentElement.scrollHeight"))
	does(ctx, t, chromedp.EmulateViewport(width, high), settledPage(), holds(fmt.Sprintf("innerHeight === %d && scrollY === 0", high)))
	picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	shown, err := png.DecodeConfig(bytes.NewReader(picture))
	if err != nil || int64(shown.Width) != width || int64(shown.Height) != high || high < 300 {
		t.Fatalf("a picture of %d by %d, not %d by %d: %v", shown.Width, shown.Height, width, high, err)
	}
	return small(t, picture)
}

func TestBrowserScreenshots(t *testing.T) {
	t.Parallel()
	dir := *shotsDir
	if dir == "" {
		dir = t.TempDir()
	}
	w, line := inPictures(t)
	ctx := chromium(t)
	w.signIn(ctx)
	for _, check := range []string{"Verify", "Compare"} {
		does(ctx, t, chromedp.Navigate(line.HTTP+"/a/main/money"), browsertest.Click(`//button[text()="`+check+`"]`), shows(check+" again"))
	}
	all := 0
	for _, page := range []struct{ name, path, shows string }{
		{"overview", "/", "Needs you"},
		{"operations", "/a/main/operations", "ads-last-minute/0001"},
		{"operation", "/a/main/operation?id=ads-last-minute", "Resolve the review"},
		{"reviews", "/a/main/reviews", "ads-last-minute/0001"},
		{"schedule", "/a/main/schedule?id=ads-weekly&plan=1", "Plan needs approval"},
		{"calendar", "/a/main/calendar?month=" + time.Now().UTC().AddDate(0, 0, 20).Format("2006-01"), "is expected to cost"},
		{"proxy", "/a/main/proxy?id=px_dallas_05", "shop-checkout"},
		{"money", "/a/main/money", "Books and provider"},
	} {
		for _, width := range []int64{360, 1280, 2560} {
			for _, scheme := range []string{"light", "dark"} {
				does(ctx, t, looksLike(width, scheme), chromedp.Navigate(line.HTTP+page.path), shows(page.shows))
				picture := shot(ctx, t, width)
				all += len(picture)
				name := filepath.Join(dir, fmt.Sprintf("web-%s-%d-%s.png", page.name, width, scheme))
				if err := os.WriteFile(name, picture, 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if all > 4<<20 {
		t.Errorf("the pictures are %d bytes, over 4 MB", all)
	}
}
