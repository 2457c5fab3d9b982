package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"perennial/jobs/command"
	"perennial/ledger/fact"
	"perennial/upstream"
)

func mapIn(c map[string]any, name string) map[string]any {
	m, _ := c[name].(map[string]any)
	return m
}

func itemsIn(c map[string]any) (items []map[string]any) {
	all, _ := c["items"].([]any)
	for _, x := range all {
		if item, ok := x.(map[string]any); ok {
			items = append(items, item)
		}
	}
	return items
}

func wholeIn(v any) int64 {
	switch v := v.(type) {
	case int:
		return int64(v)
	case json.Number:
		n, _ := v.Int64()
		return min(n, upstream.MaxQuantity+1)
	}
	return 0
}

// anyText reports whether found accepts an ID, a CIDR or a label, each with its maximum length.
func anyText(c map[string]any, found func(bound int, text string) bool) bool {
	is := func(bound int, v any) bool {
		text, ok := v.(string)
		return ok && found(bound, text)
	}
	if is(command.MaxIDBytes, c["offer_code"]) {
		return true
	}
	ids, _ := c["proxy_ids"].([]any)
	for _, item := range itemsIn(c) {
		cidrs, _ := item["cidrs"].([]any)
		ids = append(append(slices.Clip(ids), item["offer_code"]), cidrs...)
	}
	for _, id := range ids {
		if is(command.MaxIDBytes, id) {
			return true
		}
	}
	for k, v := range mapIn(c, "labels") {
		if is(fact.MaxLabelBytes, k) || is(fact.MaxLabelBytes, v) {
			return true
		}
	}
	return false
}

func anyInstant(c map[string]any, found func(string) bool) bool {
	all := []any{c["not_after"], c["due_before"]}
	for _, v := range mapIn(c, "expect_expires_at") {
		all = append(all, v)
	}
	return slices.ContainsFunc(all, func(v any) bool {
		text, ok := v.(string)
		return ok && found(text)
	})
}

func anyNumber(c map[string]any, found func(json.Number) bool) bool {
	all := []any{c["duration_days"], c["quantity"], c["max_total_cents"]}
	for _, item := range itemsIn(c) {
		all = append(all, item["quantity"])
	}
	return slices.ContainsFunc(all, func(v any) bool {
		n, ok := v.(json.Number)
		return ok && found(n)
	})
}

// linesOfOneOffer reports whether two lines of the same offer conflict.
func linesOfOneOffer(c map[string]any) bool {
	taken := map[any]map[any]bool{}
	for _, item := range itemsIn(c) {
		offer, _ := item["offer_code"].(string)
		cidrs, _ := item["cidrs"].([]any)
		before, again := taken[offer]
		if again && (len(before) == 0 || len(cidrs) == 0) {
			return true
		}
		if !again {
			taken[offer] = map[any]bool{}
		}
		for _, x := range cidrs {
			if text, ok := x.(string); ok && before[text] {
				return true
			} else if ok {
				taken[offer][text] = true
			}
		}
	}
	return false
}

// Random commands do not reach these sizes.
func TestParserAndSchemaHaveTheSameBounds(t *testing.T) {
	names := func(n int) (all []any) {
		for i := range n {
			all = append(all, fmt.Sprintf("px_%d", i))
		}
		return all
	}
	lines := func(n int) (all []any) {
		for _, id := range names(n) {
			all = append(all, map[string]any{"offer_code": id, "quantity": 1})
		}
		return all
	}
	labelled := func(n int) map[string]any {
		all := map[string]any{}
		for _, id := range names(n) {
			all[fmt.Sprint(id)] = "x"
		}
		return all
	}
	for what, x := range map[string]struct {
		subject string
		good    bool
		fields  map[string]any
	}{
		"5000 proxies":          {"proxy.renew", true, map[string]any{"proxy_ids": names(5000)}},
		"5001 proxies":          {"proxy.renew", false, map[string]any{"proxy_ids": names(5001)}},
		"1080 days":             {"proxy.renew", true, map[string]any{"proxy_ids": names(1), "duration_days": 1080}},
		"1110 days":             {"proxy.renew", false, map[string]any{"proxy_ids": names(1), "duration_days": 1110}},
		"1110 days of an order": {"order.create", true, map[string]any{"items": lines(1), "duration_days": 1110}},
		"50 lines":              {"order.create", true, map[string]any{"items": lines(50)}},
		"51 lines":              {"order.create", false, map[string]any{"items": lines(51)}},
		"32 labels":             {"order.create", true, map[string]any{"items": lines(1), "labels": labelled(32)}},
		"33 labels":             {"order.create", false, map[string]any{"items": lines(1), "labels": labelled(33)}},
		"128 bytes of id":       {"order.create", true, map[string]any{"items": lines(1), "id": strings.Repeat("a", 128)}},
		"129 bytes of id":       {"order.create", false, map[string]any{"items": lines(1), "id": strings.Repeat("a", 129)}},
		"both forms":            {"order.create", false, map[string]any{"items": lines(1), "offer_code": "a", "quantity": 1}},
		"an offer alone":        {"order.create", false, map[string]any{"offer_code": "a"}},
		"no form":               {"order.create", false, map[string]any{}},
		"an empty list besides": {"order.create", true, map[string]any{"items": []any{}, "offer_code": "a", "quantity": 1}},
		"another case":          {"order.create", false, map[string]any{"items": lines(1), "Labels": nil}},
	} {
		c := map[string]any{"id": "a", "duration_days": 30}
		maps.Copy(c, x.fields)
		if passes, err := agrees(compiled(t, x.subject), x.subject, c); err != nil || passes != x.good {
			t.Errorf("%s: passes %v, %.300v", what, passes, err)
		}
	}
}
