package plans

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"perennial/jobs/command"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/upstream"
)

func labelled(id string, in time.Duration, labels ...string) tables.Proxy {
	p := px(id, in)
	p.Labels = map[string]string{}
	for i := 0; i < len(labels); i += 2 {
		p.Labels[labels[i]] = labels[i+1]
	}
	return p
}

func decoded(t testing.TB, p Made) (all []command.RenewalCommand) {
	t.Helper()
	for _, raw := range p.Commands {
		var c command.RenewalCommand
		check(t, json.Unmarshal(raw, &c))
		all = append(all, c)
	}
	return all
}

func TestARenewalCarriesTheLabelsOfItsOrder(t *testing.T) {
	w := newWorld(t, keepalive(),
		labelled("px_1", time.Hour, "team", "ads", "schedule", "old", "replaces", "px_0"), labelled("px_2", 2*time.Hour, "team", "search"),
		px("px_3", 3*time.Hour), labelled("px_4", 4*time.Hour, "team", "ads"), labelled("px_5", 5*time.Hour))
	paid(t, w.ledger, "px_1", 300)
	got := []string{}
	for _, c := range decoded(t, w.plan(t)) {
		got = append(got, fmt.Sprint(c.ProxyIDs, c.Labels))
	}
	want(t, "commands, the nearest expiry first", got, []string{
		"[px_1 px_4] map[schedule:keepalive team:ads]", "[px_2] map[schedule:keepalive team:search]", "[px_3 px_5] map[schedule:keepalive]",
	})
	first := commandIDs(t, w.plan(t))
	w.Proxies[0].Labels["team"], w.Proxies[3].Labels["team"] = "sales", "sales"
	second := commandIDs(t, w.plan(t))
	if first[0] == second[0] || first[1] != second[1] || first[2] != second[2] {
		t.Errorf("other labels, and the ids %v became %v", first, second)
	}
	w.Schedule.CarryLabels = []string{"ticket"}
	want(t, "commands without the labels", len(w.plan(t).Commands), 1)
}

func TestARenewalCarriesNoMoreLabelsThanACommandMay(t *testing.T) {
	many := labelled("px_1", time.Hour)
	for i := range fact.MaxLabels {
		many.Labels[fmt.Sprintf("l%02d", i)] = "x"
	}
	w := newWorld(t, keepalive(), many)
	c := decoded(t, w.plan(t))[0]
	want(t, "labels", len(c.Labels), fact.MaxLabels)
	want(t, "its own among them", c.Labels[LabelSchedule], "keepalive")
}

func TestCarriedLabelsAreCheckedWithTheConfiguration(t *testing.T) {
	for _, names := range [][]string{{""}, {"team", "team"}, {"schedule"}, {"replaces"}} {
		s := keepalive()
		s.CarryLabels = names
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), "carry_labels") {
			t.Errorf("%q: %v", names, err)
		}
	}
}

func TestAReplacementHasTheProtocolOfWhatItReplaces(t *testing.T) {
	cents := func(n int64) *int64 { return &n }
	p := px("px_1", time.Hour)
	p.Protocol = "socks5"
	like := upstream.Offer{
		OfferCode: "same", CountryCode: "us", Region: "Dallas", LineName: "premium", IPType: "isp", Protocol: "socks5",
		UnitPriceCents: cents(300), BaseDurationDays: 30, DurationDays: []int64{30},
	}
	cheaper := func(change func(*upstream.Offer)) upstream.Offer {
		o := like
		o.OfferCode, o.UnitPriceCents = "other", cents(100)
		change(&o)
		return o
	}
	for name, other := range map[string]upstream.Offer{
		"protocol":         cheaper(func(o *upstream.Offer) { o.Protocol = "http" }),
		"unknown protocol": cheaper(func(o *upstream.Offer) { o.Protocol = "" }),
		"country":          cheaper(func(o *upstream.Offer) { o.CountryCode = "DE" }),
		"line":             cheaper(func(o *upstream.Offer) { o.LineName = "basic" }),
		"type":             cheaper(func(o *upstream.Offer) { o.IPType = "datacenter" }),
		"region":           cheaper(func(o *upstream.Offer) { o.Region = "Miami" }),
	} {
		got, ok := BestOffer([]upstream.Offer{other, like}, p, 30, 400)
		if !ok || got.OfferCode != "same" {
			t.Errorf("another %s is bought: %+v", name, got)
		}
		if _, ok := BestOffer([]upstream.Offer{other}, p, 30, 400); ok != (name == "region") {
			t.Errorf("another %s alone is bought: %v", name, ok)
		}
	}
}

// Otherwise the intake would refuse the whole command.
func TestPlansAndCommandsTakeTheSameIDs(t *testing.T) {
	ids := []string{"", "px_1", strings.Repeat("a", command.MaxIDBytes), strings.Repeat("a", command.MaxIDBytes+1), "px\uFFFD", "px\xff", "a b", "\u00a0"}
	for r := range rune(0x3100) {
		ids = append(ids, "px_"+string(r))
	}
	for _, id := range append(ids, "\U0001F600", "\uFEFFpx", "\uFFFC", "\uFFFE", "px\u3164", "px\uFE0F", "px"+strings.Repeat("\u0301", 5)) {
		one := Included{ProxyID: id, ExpiresAt: noon.Add(time.Hour)}
		raw, err := encodeCommand(keepalive(), "sweep-1", []Included{one})
		check(t, err)
		if _, err := command.Parse(fact.KindRenewal, raw, command.Rules{}); utf8.ValidString(id) && command.ValidID(id) != (err == nil) {
			t.Errorf("%+q: %v", id, err)
		}
	}
}

// A plan's hash, and the detection of duplicate commands, depend on these bytes.
func TestTheBytesOfASweepsCommandDoNotChange(t *testing.T) {
	one := Included{ProxyID: "px_1", ExpiresAt: noon.Add(time.Hour)}
	raw, err := encodeCommand(keepalive(), "sweep-1", []Included{one})
	check(t, err)
	expiry := noon.Add(time.Hour).UTC().Format(time.RFC3339Nano)
	want(t, "command", string(raw), `{"id":"sweep-1","proxy_ids":["px_1"],"duration_days":30,"due_before":"`+expiry+
		`","expect_expires_at":{"px_1":"`+expiry+`"},"labels":{"schedule":"keepalive"}}`)
}

// In JSON, an id that is not UTF-8 would become another id.
func TestAProxyWhoseIDIsNoTextIsLeftOut(t *testing.T) {
	if command.ValidID("px\xff") {
		t.Error("an id that is not UTF-8 is valid")
	}
}

// An order from before a rule on labels may have labels that the runner refuses now. With them,
// the proxy would not be renewed.
func TestARenewalCarriesOnlyWhatACommandMay(t *testing.T) {
	labels := map[string]string{"team": "red", "bad": "a\x1b[2J", "": "nameless", "long": strings.Repeat("x", fact.MaxLabelBytes+1)}
	for i := range 12 {
		labels[fmt.Sprintf("z%02d", i)] = strings.Repeat("x", fact.MaxLabelBytes)
	}
	s := Schedule{Name: strings.Repeat("s", fact.MaxLabelBytes)}
	carried := s.carried(tables.Proxy{Labels: labels})
	if carried["team"] != "red" || len(carried) < 5 {
		t.Errorf("%d are carried: %v", len(carried), carried["team"])
	}
	if err := fact.CheckLabels(commandLabels(s.Name, carried)); err != nil {
		t.Error(err)
	}
}
