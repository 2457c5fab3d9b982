package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/unicode/norm"
	"pgregory.net/rapid"

	"perennial/jobs/command"
	"perennial/ledger/fact"
	"perennial/upstream"
)

// unsaid lists the rules for commands that JSON Schema cannot express. The parser must refuse what
// a rule finds, and the schema may accept it. In everything else parser and schema agree.
var unsaid = []struct {
	why  string
	find func(map[string]any) bool
}{
	{"lengths are in bytes, except of a command's id, and maxLength counts characters", func(c map[string]any) bool {
		return anyText(c, func(bound int, text string) bool { return len(text) > bound && utf8.RuneCountInString(text) <= bound })
	}},
	{"a fact cannot hold an id of more than 500 bytes", func(c map[string]any) bool {
		id, _ := c["id"].(string)
		return fact.Bounded(id) != id
	}},
	{"ids of commands are in Unicode NFC", func(c map[string]any) bool {
		id, _ := c["id"].(string)
		return !norm.NFC.IsNormalString(id)
	}},
	{"all labels together are bounded", func(c map[string]any) bool {
		size := 0
		for k, v := range mapIn(c, "labels") {
			text, _ := v.(string)
			size += len(k) + len(text)
		}
		return size > fact.MaxLabelsBytes
	}},
	{"all quantities together are bounded", func(c map[string]any) bool {
		var sum int64
		for _, item := range itemsIn(c) {
			sum += wholeIn(item["quantity"])
		}
		return sum > upstream.MaxQuantity
	}},
	{"lines of one offer have different CIDRs, each", linesOfOneOffer},
	{"expect_expires_at names proxies of proxy_ids", func(c map[string]any) bool {
		ids, _ := c["proxy_ids"].([]any)
		for id := range mapIn(c, "expect_expires_at") {
			if !slices.Contains(ids, any(id)) {
				return true
			}
		}
		return false
	}},
	{"an instant may lie in another year in UTC", func(c map[string]any) bool {
		return anyInstant(c, func(text string) bool {
			at, err := time.Parse(time.RFC3339, text)
			return err == nil && !fact.WritableInstant(at)
		})
	}},
	{"no proxy expires in the first instant of the year 1, which is how no instant is stored", func(c map[string]any) bool {
		for _, text := range mapIn(c, "expect_expires_at") {
			if at, err := time.Parse(time.RFC3339, fmt.Sprint(text)); err == nil && at.IsZero() {
				return true
			}
		}
		return false
	}},
	{"a whole number is written in plain digits, and to JSON Schema 30.0 is one too", func(c map[string]any) bool {
		return anyNumber(c, func(n json.Number) bool { return strings.ContainsAny(n.String(), ".eE") })
	}},
}

var kindsOfSubjects = map[string]fact.Kind{"order.create": fact.KindOrder, "proxy.renew": fact.KindRenewal}

// agrees compares the parser with the schema on one command, and reports whether the parser accepts
// it.
func agrees(schema *jsonschema.Schema, subject string, c map[string]any) (passes bool, err error) {
	text, err := json.Marshal(c)
	if err != nil {
		return false, err
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return false, err
	}
	refused := schema.Validate(value)
	_, wrong := command.Parse(kindsOfSubjects[subject], text, command.Rules{Environment: upstream.Sandbox, CIDRField: "cidrs"})
	for _, rule := range unsaid {
		if rule.find(c) {
			if wrong == nil {
				return true, fmt.Errorf("%s\nthe parser takes it, although %s", text, rule.why)
			}
			return false, nil
		}
	}
	if (refused == nil) != (wrong == nil) {
		return wrong == nil, fmt.Errorf("%s\nthe schema: %w\nthe parser: %w", text, orPasses(refused), orPasses(wrong))
	}
	return wrong == nil, nil
}

func orPasses(err error) error {
	if err == nil {
		return errors.New("passes")
	}
	return err
}

func TestParserAndSchemaTakeTheSameCommands(t *testing.T) {
	for subject, fields := range map[string]map[string]*rapid.Generator[any]{"order.create": orderFields, "proxy.renew": renewalFields} {
		t.Run(subject, func(t *testing.T) {
			schema, taken := compiled(t, subject), 0
			rapid.Check(t, func(t *rapid.T) {
				for range 30 { // a hundred commands find little
					c := drawCommand(t, subject, fields)
					passes, err := agrees(schema, subject, c)
					if err != nil {
						t.Fatal(err)
					}
					if passes {
						taken++
					}
				}
			})
			if taken == 0 {
				t.Error("no command was taken")
			}
		})
	}
}

// drawCommand draws a command that is mostly valid, with a few hostile, missing or unknown fields.
func drawCommand(t *rapid.T, subject string, fields map[string]*rapid.Generator[any]) map[string]any {
	c := map[string]any{}
	form := rapid.SampledFrom([]string{"items", "offer", "both"}).Draw(t, "form")
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if form == "items" && (name == "offer_code" || name == "quantity") || form == "offer" && name == "items" {
			continue
		}
		optional := !slices.Contains([]string{"id", "duration_days", "proxy_ids", "items", "offer_code", "quantity"}, name)
		switch n := rapid.IntRange(0, 19).Draw(t, name+"?"); {
		case n == 0:
			c[name] = odd.Draw(t, name)
		case n == 1, optional && n < 10:
		default:
			c[name] = fields[name].Draw(t, name)
		}
	}
	if form == "both" && subject == "order.create" && rapid.Bool().Draw(t, "empty") {
		c["items"] = rapid.SampledFrom([]any{nil, []any{}}).Draw(t, "items")
	}
	if rapid.IntRange(0, 19).Draw(t, "unknown?") == 0 {
		c[rapid.SampledFrom([]string{"Id", "max_total_cent", "extra", "kind", ""}).Draw(t, "unknown")] = odd.Draw(t, "extra")
	}
	return c
}

// texts draws IDs and labels at their limits, and texts with invisible characters.
var texts = rapid.SampledFrom([]string{
	"a", "px_1", "px_2", "off_1", "off_2", "a b", "=1+1", "Größe", "日本", "", " ", "\x00", "a\n", "a\u200b", "\ufffd", "\U000e0001", "e\u0301",
	"a" + strings.Repeat("\u0301", 4), "a" + strings.Repeat("\u0301", 5), "\u0301\u0903\u0301\u0301\u0301\u0301",
	strings.Repeat("a", 128), strings.Repeat("a", 129), strings.Repeat("b", 256), strings.Repeat("b", 257),
	strings.Repeat("é", 64), strings.Repeat("é", 65), strings.Repeat("é", 128), strings.Repeat("é", 129), strings.Repeat("𠀀", 125), strings.Repeat("𠀀", 126),
})

var (
	ids = rapid.OneOf(rapid.SampledFrom([]string{"px_1", "px_2", "px_3", "off_1", "off_2"}), texts)

	instants = rapid.SampledFrom([]any{
		"2026-11-25T00:00:00Z", "2026-11-25T00:00:00.123456789Z", "2026-11-25T00:00:00.1234567890123Z", "2026-11-25T01:00:00+01:00", "2026-11-25T01:00:00-23:59",
		"0001-01-01T00:00:00Z", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59-01:00", "0000-06-01T00:00:00Z", "2028-02-29T12:00:00Z",
		"2026-02-29T12:00:00Z", "2026-13-01T00:00:00Z", "2026-11-25T24:00:00Z", "2026-12-31T23:59:60Z", "2026-11-25t00:00:00z", "2026-11-25", "tomorrow", "",
		"2026-11-25T00:00:00", "2026-11-25T00:00:00,5Z", "2026-11-25T00:00:00+24:00", "2026-11-25T00:00:00+0100", " 2026-11-25T00:00:00Z", "2026-11-25T0:00:00Z", "+2026-11-25T00:00:00Z",
		nil,
	})
	amounts = rapid.SampledFrom([]any{
		1, 2, 30, 60, 90, 360, 720, 1080, 1095, 1110, 2000, 2001, 0, -1, -30, 45, json.Number("30.0"), json.Number("3e1"), json.Number("30.5"),
		json.Number("9223372036854775807"), json.Number("9223372036854775800"), json.Number("9223372036854775808"), json.Number("-0"), json.Number("1e400"), nil, "30", true,
	})
	odd = rapid.OneOf(rapid.Just[any](nil), amounts, instants, asAny(texts), rapid.SampledFrom([]any{
		true, []any{}, map[string]any{}, []any{nil}, []any{"a", "a"}, map[string]any{"a": nil}, []any{map[string]any{}}, []any{[]any{}}, []any{1},
	}))
	whole   = rapid.OneOf(asAny(rapid.SampledFrom([]int{30, 60, 90, 360})), amounts)
	few     = rapid.OneOf(asAny(rapid.IntRange(1, 40)), amounts)
	cidr    = rapid.SampledFrom([]any{"192.0.2.0/24", "198.51.100.0/24", "", nil, strings.Repeat("é", 129), "\x00"})
	anItem  = rapid.Custom(drawItem)
	words   = rapid.OneOf(rapid.Just[any]("high"), asAny(rapid.SampledFrom([]string{"bulk", "", "success", "delayed", "partial", "rejected", "High", "normal"})), rapid.Just[any](nil))
	labelsG = asAny(rapid.MapOfN(texts, rapid.OneOf(asAny(texts), rapid.Just[any](nil)), 0, 12))

	orderFields = map[string]*rapid.Generator[any]{
		"id": asAny(ids), "duration_days": whole, "items": asAny(rapid.SliceOfN(anItem, 0, 4)), "offer_code": asAny(ids), "quantity": few,
		"max_total_cents": amounts, "not_after": instants, "labels": labelsG, "sandbox_scenario": words, "priority": words,
	}
	renewalFields = map[string]*rapid.Generator[any]{
		"id": asAny(ids), "duration_days": whole, "proxy_ids": asAny(rapid.SliceOfN(asAny(ids), 0, 5)), "max_total_cents": amounts, "not_after": instants,
		"due_before": instants, "expect_expires_at": asAny(rapid.MapOfN(ids, instants, 0, 2)), "labels": labelsG, "priority": words,
	}
)

func drawItem(t *rapid.T) any {
	item := map[string]any{"offer_code": ids.Draw(t, "offer"), "quantity": few.Draw(t, "quantity")}
	if rapid.Bool().Draw(t, "cidrs?") {
		item["cidrs"] = rapid.SliceOfN(cidr, 0, 3).Draw(t, "cidrs")
	}
	if rapid.IntRange(0, 30).Draw(t, "odd?") == 0 {
		item[rapid.SampledFrom([]string{"offer_code", "quantity", "cidrs", "extra"}).Draw(t, "odd")] = odd.Draw(t, "value")
	}
	return item
}

func asAny[T any](g *rapid.Generator[T]) *rapid.Generator[any] {
	return rapid.Map(g, func(v T) any { return v })
}
