package sandbox_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"perennial/upstream/sandbox"
)

func (h *rig) moods(seed uint64, names ...string) {
	h.t.Helper()
	h.control(http.MethodPost, "/moods", map[string]any{"moods": names, "seed": seed}, nil)
}

// shows repeats a request until the reply is as wanted, because quirks apply at random.
func (h *rig) shows(name string, ask func(i int) *seen, wanted func(*seen) bool) {
	h.t.Helper()
	var last *seen
	for i := range 80 {
		if last = ask(i); wanted(last) {
			return
		}
	}
	h.t.Errorf("%s never shows; last %d %s", name, last.status, last.body)
}

// Each quirk alone has its effect, and without the quirk there is no such effect.
func TestEachMoodShows(t *testing.T) {
	h := start(t, nil)
	reads := func(target string) func(int) *seen { return func(int) *seen { return h.send(get(target)) } }
	bill := `{"duration_days":30,"proxy_ids":["px_1"]}`
	renews := func(i int) *seen { q := renew(bill); q.key = fmt.Sprint("r-", i); return h.send(q) }
	again := func(int) *seen { q := renew(bill); q.key = "again"; return h.send(q) }
	if first := again(0); first.Code != "ok" {
		t.Fatalf("%d %s", first.status, first.body)
	}
	placed := order(`{"duration_days":30,"items":[{"offer_code":"off_us","quantity":1}]}`)
	placed.key = "o-1"
	h.send(placed)
	has := func(text string) func(*seen) bool {
		return func(s *seen) bool { return strings.Contains(s.body, text) }
	}
	lacks := func(text string) func(*seen) bool {
		return func(s *seen) bool { return !strings.Contains(s.body, text) }
	}
	cases := map[string]struct {
		ask    func(int) *seen
		wanted func(*seen) bool
	}{
		sandbox.MoodLaggingReads: {func(i int) *seen {
			renews(1000 + i)
			h.clock.Advance(time.Second)
			return h.send(get("/api/v1/wallet"))
		},
			func(s *seen) bool { return s.balance() > h.refereeBalance() }},
		sandbox.MoodEmptyLeftOut:      {renews, lacks("failed_proxy_ids")},
		sandbox.MoodUnknownFields:     {reads("/api/v1/account"), has("Expires_At")},
		sandbox.MoodUnknownStatuses:   {reads("/api/v1/orders"), lacks(`"status":"completed"`)},
		sandbox.MoodEarlyRefusals:     {again, func(s *seen) bool { return s.Code == "validation_error" }},
		sandbox.MoodReplayedEnvelopes: {func(int) *seen { h.clock.Advance(time.Second); return again(0) }, has(h.clock.Now().UTC().Format("T15:04") + ":0")},
		sandbox.MoodWildRetryAfter:    {reads("/api/v1/wallet"), func(s *seen) bool { return s.Code == "rate_limited" && s.header.Get("Retry-After") == "soon" }},
		sandbox.MoodContradictingStatuses: {func(i int) *seen { return renews(2000 + i) },
			func(s *seen) bool { return s.Code == "validation_error" && s.status == 500 }},
		sandbox.MoodRenamedOffers: {func(int) *seen { h.clock.Advance(time.Minute); return h.send(get("/api/v1/offers")) }, has("Dallas (new)")},
		sandbox.MoodShortTokens:   {h.secondPage("/api/v1/proxies"), func(s *seen) bool { return s.Code == "invalid_page_token" }},
		sandbox.MoodSmallPages:    {reads("/api/v1/proxies?page_size=100"), func(s *seen) bool { return s.wrongField("page_size") }},
		sandbox.MoodSecondArray:   {reads("/api/v1/proxies"), has(`"notices":[`)},
	}
	for _, name := range sandbox.Moods() {
		c, found := cases[name]
		if !found {
			t.Errorf("no test shows %s", name)
			continue
		}
		h.moods(1, name)
		h.shows(name, c.ask, c.wanted)
		h.control(http.MethodDelete, "/moods", nil, nil)
		for i := range 8 {
			if s := c.ask(5000 + i); name != sandbox.MoodReplayedEnvelopes && c.wanted(s) {
				t.Errorf("%s shows without it: %d %s", name, s.status, s.body)
			}
		}
	}
}

func (s *seen) balance() int64 {
	var data struct {
		Cents int64 `json:"balance_cents"`
	}
	_ = json.Unmarshal(s.Data, &data)
	return data.Cents
}

// refereeBalance returns the expected balance of alpha's sandbox wallet.
func (h *rig) refereeBalance() int64 {
	h.t.Helper()
	charges, err := h.s.Charges()
	if err != nil {
		h.t.Fatal(err)
	}
	cents := int64(500000)
	for _, c := range charges {
		if c.Kind == "charge" {
			cents -= c.AmountCents
		} else {
			cents += c.AmountCents
		}
	}
	return cents
}

// secondPage returns a function that requests the second page.
func (h *rig) secondPage(target string) func(int) *seen {
	return func(int) *seen {
		first := h.send(get(target))
		var data struct {
			Next string `json:"next_page_token"`
		}
		if err := json.Unmarshal(first.Data, &data); err != nil || data.Next == "" {
			h.t.Fatalf("%s: %v", first.body, err)
		}
		return h.send(get(target + "?page_token=" + data.Next))
	}
}

// Quirks change replies, not effects. With every quirk, the referee's lines add up to the
// wallet, and no key is charged twice.
func TestTheRefereeStaysExactUnderEveryMood(t *testing.T) {
	t.Parallel()
	for seed, name := range append(sandbox.Moods(), "all") {
		h := start(t, func(o *sandbox.Options) { o.Moods, o.MoodSeed = []string{name}, uint64(seed) })
		for i := range 40 {
			q := renew(fmt.Sprintf(`{"duration_days":30,"proxy_ids":["px_bulk_%d"]}`, 1+i%9))
			if i%3 == 0 {
				q = order(`{"duration_days":30,"items":[{"offer_code":"off_us","quantity":2}]}`)
				q.header = map[string]string{"X-Service-Sandbox-Scenario": []string{"success", "partial", "rejected"}[i%9/3]}
			}
			q.key = fmt.Sprint("k-", i)
			for range 3 {
				h.send(q)
				h.clock.Advance(2 * time.Second)
			}
		}
		h.control(http.MethodDelete, "/moods", nil, nil)
		h.booksAgree(500000, "sandbox", h.send(get("/api/v1/wallet")).balance())
		charges, err := h.s.Charges()
		if err != nil {
			t.Fatal(err)
		}
		once := map[string]bool{}
		for _, c := range charges {
			if once[c.Kind+c.IdempotencyKey] {
				t.Errorf("%s: twice: %+v", name, c)
			}
			once[c.Kind+c.IdempotencyKey] = true
		}
	}
}

// The same seed and the same requests give the same replies.
func TestMoodsOfOneSeedAreTheSame(t *testing.T) {
	statuses := func() (out []string) {
		h := start(t, func(o *sandbox.Options) { o.Moods, o.MoodSeed = []string{"all"}, 9 })
		for range 60 {
			s := h.send(get("/api/v1/proxies/px_nowhere"))
			out = append(out, fmt.Sprint(s.status, s.Code, s.header.Get("Retry-After")))
		}
		return out
	}
	if one, two := statuses(), statuses(); !slices.Equal(one, two) {
		t.Errorf("%v\n%v", one, two)
	}
}

func TestAnUnknownMoodIsRefused(t *testing.T) {
	h := start(t, nil)
	if status, answer := h.controlRaw(http.MethodPost, "/moods", `{"moods":["sunny"]}`, ""); status != http.StatusBadRequest || answer["field"] != "moods" {
		t.Errorf("%d %v", status, answer)
	}
	if _, err := sandbox.New(sandbox.Options{Moods: []string{"sunny"}}); err == nil {
		t.Error("an unknown mood is taken")
	}
}

// README.md and the code list the same quirks in the same order, each with the sentence that
// permits it.
func TestThePageNamesTheMoods(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## Moods")
	section, _, _ = strings.Cut(section, "\n## ")
	var named []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (.+) \\| (.+) \\|$").FindAllStringSubmatch(section, -1) {
		if len(row[2]) < 20 || len(row[3]) < 20 {
			t.Errorf("%s says too little: %s", row[1], row[0])
		}
		named = append(named, row[1])
	}
	if !found || !slices.Equal(named, sandbox.Moods()) {
		t.Errorf("the page names %v\nthe code %v", named, sandbox.Moods())
	}
}
