package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"perennial/ledger/fact"
	"perennial/upstream"
)

var someBinding = fact.Binding{AccountID: "acc_1", Environment: "sandbox", BaseURL: "http://127.0.0.1:1", Currency: "USD", Epoch: "e1"}

var sandboxRules = Rules{Environment: upstream.Sandbox}

const (
	goodOrder   = `{"id":"o","duration_days":30,"items":[{"offer_code":"off_1","quantity":5}],"max_total_cents":1500,"not_after":"2026-11-22T00:00:00Z","labels":{"a":"1","b":"2"}}`
	goodRenewal = `{"id":"r","proxy_ids":["px_1","px_2"],"duration_days":30,"max_total_cents":900,"due_before":"2026-11-25T00:00:00Z","expect_expires_at":{"px_1":"2026-11-24T00:00:00Z"}}`
)

func many(n int, one func(int) string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = one(i)
	}
	return strings.Join(all, ",")
}

func offerLine(i int) string { return fmt.Sprintf(`{"offer_code":"off_%d","quantity":1}`, i) }
func proxyID(i int) string   { return fmt.Sprintf(`"px_%d"`, i) }

// Each entry has the fields of a bad order or renewal besides its id, and words that the
// reason must contain.
func TestTrap32ABadCommandIsRefusedWithAUsefulReason(t *testing.T) {
	item := `"items":[{"offer_code":"off_1","quantity":5}]`
	for fields, want := range map[string]string{
		`"duration_days":30,` + item + `,"max_total_cent":5`:                                                 "max_total_cent",
		`"duration_days":30,` + item + `,"Max_total_cents":5`:                                                "Max_total_cents",
		`"duration_days":30,` + item + `,"max_total_cents":5,"max_total_cents":500`:                          "appears twice",
		`"duration_days":30,"items":[{"offer_code":"off_1","quantity":5,"Quantity":6}]`:                      "items[0].Quantity",
		`"duration_days":30,"items":[{"offer_code":"off_1","quantity":5,"quantity":6}]`:                      "items[0].quantity",
		`"duration_days":30,` + item + `,"max_total_cents":0`:                                                "leave it out",
		`"duration_days":30,` + item + `,"max_total_cents":-1`:                                               "at least 1",
		`"duration_days":30,` + item + `,"max_total_cents":1.5`:                                              "whole number",
		`"duration_days":30,` + item + `,"max_total_cents":"5"`:                                              "whole number",
		`"duration_days":30,` + item + `,"max_total_cents":99999999999999999999`:                             "at most 9223372036854775807",
		`"duration_days":30,` + item + `,"max_total_cents":5.0`:                                              "without a point",
		`"duration_days":30,` + item + `,"max_total_cents":[5]`:                                              "is a list and must be a whole number",
		`"duration_days":45,` + item:                                                                         "multiple of 30",
		`"duration_days":0,` + item:                                                                          "positive multiple",
		`"duration_days":-30,` + item:                                                                        "positive multiple",
		item:                                                                                                 "duration_days",
		`"duration_days":30`:                                                                                 "name at least one offer",
		`"duration_days":30,"items":[]`:                                                                      "name at least one offer",
		`"duration_days":30,"items":[` + many(51, offerLine) + `]`:                                           "51 lines of at most 50",
		`"duration_days":30,"items":[{"offer_code":"off_1","quantity":2001}]`:                                "1 to 2000",
		`"duration_days":30,"items":[{"offer_code":"off_1","quantity":0}]`:                                   "1 to 2000",
		`"duration_days":30,"items":[{"offer_code":"","quantity":1}]`:                                        "offer_code",
		`"duration_days":30,"items":[{"offer_code":"a","quantity":1},{"offer_code":"a","quantity":2}]`:       "on one line",
		`"duration_days":30,"items":[{"offer_code":"a","quantity":1001},{"offer_code":"b","quantity":1000}]`: "2001 of at most 2000",
		`"duration_days":30,"items":[{"offer_code":"a","quantity":1,"cidrs":["198.51.100.0/24"]}]`:           "cidr_field",
		`"duration_days":30,` + item + `,"offer_code":"off_1","quantity":5`:                                  "use one form",
		`"duration_days":30,"offer_code":"off_1"`:                                                            "both offer_code and quantity",
		`"duration_days":30,` + item + `,"sandbox_scenario":"explode"`:                                       "success, delayed, partial or rejected",
		`"duration_days":30,` + item + `,"not_after":"tomorrow"`:                                             `field "not_after" must be an instant as 2026-11-25T00:00:00Z`,
		`"duration_days":30,` + item + `,"labels":{"":"x"}`:                                                  "label",
		`"duration_days":30,` + item + `,"labels":{"a":"` + strings.Repeat("x", 257) + `"}`:                  "256",
		`"duration_days":30,` + item + `,"labels":{"a":"\u001b[2J"}`:                                         "cannot be printed",
		`"duration_days":30,` + item + `,"labels":{"a\nb":"x"}`:                                              "cannot be printed",
		`"duration_days":30,` + item + `,"labels":{"a":"✔️"}`:                                                "U+FE0F",
		`"duration_days":30,"items":[{"offer_code":"offㅤ","quantity":1}]`:                                    "U+3164",
		`"duration_days":30,` + item + `,"labels":{` + manyLabels(9) + `}`:                                   "2048",
		`"duration_days":30,` + item + `,"labels":{"a=b":"c"}`:                                               "'=' in its key",
		`"duration_days":30,` + item + `,"labels":{"a":"b "}`:                                                "blank",
		`"duration_days":30,` + item + `,"labels":["a"]`:                                                     "an object",
		`"duration_days":30,` + item + `,"labels":{"a":{"b":[{"c":1}]}}`:                                     "text",
	} {
		mustRefuse(t, fact.KindOrder, `{"id":"c-1",`+fields+`}`, sandboxRules, want)
	}
	for fields, want := range map[string]string{
		`"duration_days":1110,"proxy_ids":["a"]`:                                                "1080",
		`"duration_days":1095,"proxy_ids":["a"]`:                                                "multiple of 30",
		`"duration_days":30,"proxy_ids":[]`:                                                     "at least one proxy",
		`"duration_days":30`:                                                                    "at least one proxy",
		`"duration_days":30,"proxy_ids":["a","b","a"]`:                                          "paid for twice",
		`"duration_days":30,"proxy_ids":["a",""]`:                                               "proxy_ids[1]",
		`"duration_days":30,"proxy_ids":["a\u0000"]`:                                            "cannot be printed",
		`"duration_days":30,"proxy_ids":["a","a\u115f"]`:                                        "U+115F",
		`"duration_days":30,"proxy_ids":["` + strings.Repeat("x", 257) + `"]`:                   "1 to 256",
		`"duration_days":30,"proxy_ids":[1]`:                                                    "text",
		`"duration_days":30,"proxy_ids":[` + many(5001, proxyID) + `]`:                          "split the command",
		`"duration_days":30,"proxy_ids":["a"],"expect_expires_at":{"b":"2026-11-24T00:00:00Z"}`: "not in proxy_ids",
		`"duration_days":30,"proxy_ids":["a"],"expect_expires_at":{"a":null}`:                   "is no expiry",
		`"duration_days":30,"proxy_ids":["a"],"items":[]`:                                       "items",
		`"duration_days":30,"proxy_ids":["a"],"sandbox_scenario":"success"`:                     "sandbox_scenario",
		`"duration_days":30,"proxy_ids":["a"],"due_before":"2026-11-25"`:                        "",
	} {
		mustRefuse(t, fact.KindRenewal, `{"id":"c-1",`+fields+`}`, sandboxRules, want)
	}
	mustRefuse(t, fact.KindOrder, `{"id":"c-1","duration_days":30,`+item+`,"sandbox_scenario":"success"}`, Rules{Environment: upstream.Production}, "sandbox accounts only")
}

func mustRefuse(t *testing.T, kind fact.Kind, text string, rules Rules, want string) {
	t.Helper()
	_, err := Parse(kind, []byte(text), rules)
	var invalid *InvalidError
	if !errors.As(err, &invalid) || invalid.ID != "c-1" || invalid.Reason == "" || !strings.Contains(err.Error(), want) {
		t.Errorf("%.120s\n\tgave %.200v, want a reason with %q", text, err, want)
	}
}

func TestTrap33CIDRsAreRefusedWithoutANameForThem(t *testing.T) {
	mustRefuse(t, fact.KindOrder, `{"id":"c-1","duration_days":30,"items":[{"offer_code":"a","quantity":1,"cidrs":["198.51.100.0/24"]}]}`, sandboxRules, "cidr_field")
}

func TestAMessageThatCannotBeAnsweredIsUnreadable(t *testing.T) {
	for text, want := range map[string]string{
		``:                                      "JSON object",
		`[]`:                                    "one JSON object",
		`"x"`:                                   "one JSON object",
		`null`:                                  "one JSON object",
		`{"id":"a"`:                             "ends too early",
		`{"id":"a","duration_days":30}{}`:       "something follows",
		`{"id":"a","duration_days":30} garbage`: "something follows",
		"{\"id\":\"a\xff\"}":                    "UTF-8",
		`{"duration_days":30}`:                  "has no id",
		`{"id":"","duration_days":30}`:          "has no id",
		`{"id":7,"duration_days":30}`:           "has no id",
		`{"id":"` + strings.Repeat("x", 129) + `","duration_days":30}`:                 "129 characters of at most 128",
		`{"id":"a\nb","duration_days":30}`:                                             "cannot be printed",
		`{"id":"a\uffa0","duration_days":30}`:                                          "U+FFA0",
		`{"id":"a` + strings.Repeat("\u0301", 50) + `","duration_days":30}`:            "combining marks",
		strings.Repeat(`{"id":`, 20_000):                                               "",
		`{"labels":` + strings.Repeat(`[`, 20_000) + strings.Repeat(`]`, 20_000) + `}`: "",
		`{"id":"` + strings.Repeat("x", MaxCommandBytes) + `"}`:                        "split it",
	} {
		_, err := Parse(fact.KindOrder, []byte(text), sandboxRules)
		var unreadable *UnreadableError
		if !errors.As(err, &unreadable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q gave %v, want %q", text, err, want)
		}
	}
}

func content(t *testing.T, kind fact.Kind, text string) (string, string) {
	t.Helper()
	c, err := Parse(kind, []byte(text), Rules{Environment: upstream.Sandbox, CIDRField: "cidrs"})
	if err != nil {
		t.Fatal(err)
	}
	body, hash, err := c.Content()
	if err != nil {
		t.Fatal(err)
	}
	back, err := ReadContent(body)
	if err != nil {
		t.Fatal(err)
	}
	if _, again, err := back.Content(); err != nil || again != hash {
		t.Errorf("%s is another command after it was stored (%v)", text, err)
	}
	return string(body), hash
}

func TestTwoSpellingsOfOneCommandAreOneCommand(t *testing.T) {
	body, want := content(t, fact.KindOrder, goodOrder)
	for _, same := range []string{
		`{"labels":{"b":"2","a":"1"},"not_after":"2026-11-22T08:00:00+08:00","max_total_cents":1500,"items":[{"quantity":5,"offer_code":"off_1"}],"duration_days":30,"id":"o"}`,
		strings.ReplaceAll(goodOrder, ",", " ,\n "),
		strings.Replace(goodOrder, "off_1", `off\u005f1`, 1),
		strings.Replace(goodOrder, "00:00:00Z", "00:00:00.000Z", 1),
		`{"id":"o","duration_days":30,"offer_code":"off_1","quantity":5,"max_total_cents":1500,"not_after":"2026-11-22T00:00:00Z","labels":{"a":"1","b":"2"}}`,
		strings.Replace(goodOrder, `"quantity":5`, `"quantity":5,"cidrs":[]`, 1),
	} {
		if got, hash := content(t, fact.KindOrder, same); hash != want {
			t.Errorf("%s\n is %s\n not %s", same, got, body)
		}
	}
	for _, other := range []string{
		strings.Replace(goodOrder, "1500", "1501", 1), strings.Replace(goodOrder, `"quantity":5`, `"quantity":6`, 1),
		strings.Replace(goodOrder, `"a":"1"`, `"a":"2"`, 1), strings.Replace(goodOrder, "00:00:00Z", "00:00:01Z", 1), strings.Replace(goodOrder, ":30", ":60", 1),
	} {
		if _, hash := content(t, fact.KindOrder, other); hash == want {
			t.Errorf("%s is taken for the same", other)
		}
	}
	_, first := content(t, fact.KindRenewal, goodRenewal)
	if _, zoned := content(t, fact.KindRenewal, strings.Replace(goodRenewal, "24T00:00:00Z", "23T16:00:00-08:00", 1)); zoned != first {
		t.Error("two spellings of an expiry are two commands")
	}
}

// If the hash changed with a version, every redelivered command would be a conflict.
func TestTheContentHashNeverChanges(t *testing.T) {
	for kind, want := range map[fact.Kind]string{fact.KindOrder: goldenOrderHash, fact.KindRenewal: goldenRenewalHash} {
		text := goodOrder
		if kind == fact.KindRenewal {
			text = goodRenewal
		}
		if body, hash := content(t, kind, text); hash != want {
			t.Errorf("%s: %s, was %s\n%s", kind, hash, want, body)
		}
	}
}

func TestTrap42TheScenarioIsForSandboxesOnly(t *testing.T) {
	mustRefuse(t, fact.KindOrder, `{"id":"c-1","duration_days":30,"items":[{"offer_code":"a","quantity":1}],"sandbox_scenario":"success"}`,
		Rules{Environment: upstream.Production}, "sandbox accounts only")
}

// If a key changed with an upgrade, an operation could be paid for twice.
func TestTrap05KeysArePinned(t *testing.T) {
	seen := map[string]bool{}
	for i, key := range []string{
		Key(someBinding, fact.KindOrder, "buy", "1", 1),
		Key(someBinding, fact.KindRenewal, "buy", "1", 1),
		Key(someBinding, fact.KindRenewal, "keep", "0001", 1),
		Key(someBinding, fact.KindRenewal, "keep", "0001", 2),
		Key(someBinding, fact.KindRenewal, "keep", "0001a", 1),
		Key(fact.Binding{AccountID: "acc_1", Environment: "production"}, fact.KindOrder, "buy", "1", 1),
		Key(fact.Binding{AccountID: "acc_1s", Environment: "andbox"}, fact.KindOrder, "buy", "1", 1),
	} {
		if seen[key] || len(key) > 255 || i < len(goldenKeys) && key != goldenKeys[i] {
			t.Errorf("key %d is %s", i, key)
		}
		seen[key] = true
	}
	other := someBinding
	other.BaseURL, other.Epoch, other.Currency = "https://elsewhere", "e9", "EUR"
	if Key(other, fact.KindOrder, "buy", "1", 1) != goldenKeys[0] {
		t.Error("a restored ledger would mint another key")
	}
}

func TestChunksAreCutByARuleThatDoesNotChange(t *testing.T) {
	ids := make([]string, 250)
	for i := range ids {
		ids[i] = fmt.Sprintf("px_%03d", i)
	}
	for _, test := range []struct {
		ceiling int64
		sizes   []int
	}{{0, []int{100, 100, 50}}, {900, []int{1, 100, 100, 49}}} {
		c := Command{ID: "keep", Kind: fact.KindRenewal, MaxTotalCents: test.ceiling}
		var sizes []int
		var together []string
		for i, p := range c.Operations(someBinding, ids, c.MaxTotalCents > 0) {
			sizes, together = append(sizes, len(p.ProxyIDs)), append(together, p.ProxyIDs...)
			if want := fmt.Sprintf("keep/%04d", i+1); p.OperationID != want || p.Generation != 1 || p.Key != Key(someBinding, fact.KindRenewal, "keep", p.Chunk, 1) {
				t.Errorf("%+v", p)
			}
		}
		if !slices.Equal(sizes, test.sizes) || !slices.Equal(together, ids) {
			t.Errorf("under %d: %v", test.ceiling, sizes)
		}
	}
	if one := (Command{ID: "buy", Kind: fact.KindOrder}).Operations(someBinding, nil, false); len(one) != 1 || one[0].OperationID != "buy/1" {
		t.Errorf("%+v", one)
	}
}

func FuzzParseCommand(f *testing.F) {
	for _, seed := range []string{goodOrder, goodRenewal, `{}`, `{"id":"a","id":"b"}`, `{"id":"a","items":[{}]}`, `{"id":"a","labels":{"a":null}}`,
		`{"id":"a.>\u2028","proxy_ids":["*"],"duration_days":30}`, `{"id":"=1","proxy_ids":["<b>","a\u001b[2J"],"duration_days":30}`} {
		f.Add([]byte(seed), true)
		f.Add([]byte(seed), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, isOrder bool) {
		kind := fact.KindRenewal
		if isOrder {
			kind = fact.KindOrder
		}
		c, err := Parse(kind, data, sandboxRules)
		var unreadable *UnreadableError
		var invalid *InvalidError
		if err != nil {
			if !errors.As(err, &unreadable) && !errors.As(err, &invalid) || err.Error() == "" {
				t.Fatalf("%v", err)
			}
			return
		}
		body, hash, err := c.Content()
		if err != nil {
			t.Fatal(err)
		}
		if c.ID == "" || c.DurationDays < 30 || !json.Valid(body) || fact.Unprintable(c.ID+"/"+strings.Join(c.ProxyIDs, "/")) != "" {
			t.Fatalf("%+v", c)
		}
		back, err := ReadContent(body)
		if err != nil {
			t.Fatal(err)
		}
		if _, again, _ := back.Content(); again != hash {
			t.Fatalf("%s reads back as %+v", body, back)
		}
	})
}

// A stored command with times in another zone reads back in UTC.
func TestTimesAreKeptInUTC(t *testing.T) {
	c, err := Parse(fact.KindRenewal, []byte(strings.Replace(goodRenewal, "25T00:00:00Z", "25T09:00:00+09:00", 1)), sandboxRules)
	if err != nil {
		t.Fatal(err)
	}
	if c.DueBefore.Location() != time.UTC || !c.Guarded() {
		t.Fatalf("%s", c.DueBefore)
	}
}

// customer-api.md, POST orders, rules 2 and 3.
func TestOneOfferMayStandOnTwoLinesWithOtherCIDRs(t *testing.T) {
	rules := Rules{Environment: upstream.Sandbox, CIDRField: "cidrs"}
	lines := func(a, b string) string {
		return `{"id":"c-1","duration_days":30,"items":[{"offer_code":"o","quantity":1` + a + `},{"offer_code":"o","quantity":1` + b + `}]}`
	}
	const one, two = `,"cidrs":["198.51.100.0/25"]`, `,"cidrs":["198.51.100.128/25"]`
	if _, err := Parse(fact.KindOrder, []byte(lines(one, two)), rules); err != nil {
		t.Error(err)
	}
	mustRefuse(t, fact.KindOrder, lines(one, one), rules, "twice")
	mustRefuse(t, fact.KindOrder, lines(one, ""), rules, "with CIDRs and without")
	mustRefuse(t, fact.KindOrder, lines("", two), rules, "with CIDRs and without")
	mustRefuse(t, fact.KindOrder, lines("", ""), rules, "on one line")
}

func manyLabels(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%q:%q", string(rune('a'+i)), strings.Repeat("x", 255)))
	}
	return strings.Join(all, ",")
}

// "Id" is an unknown field, not the id.
func TestARefusalIsOfTheVeryField(t *testing.T) {
	for text, id := range map[string]string{`{"id":"a","Id":"b"}`: "a", `{"Id":"b","id":"a"}`: "a", `{"id":"a","id":"c"}`: "c"} {
		_, err := Parse(fact.KindOrder, []byte(text), Rules{})
		if refused, ok := errors.AsType[*InvalidError](err); !ok || refused.ID != id {
			t.Errorf("%s: %v", text, err)
		}
	}
}
