package decide

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"perennial/ledger/fact"
	"perennial/upstream"
)

// The test drives Decide as the runner would: a chunk with the bad id is refused, a chunk
// without it is renewed.
func TestOneBadIDAmongElevenIsFoundByHalves(t *testing.T) {
	var all []string
	for i := range 11 {
		all = append(all, fmt.Sprintf("px_%02d", i))
	}
	const bad = "px_07"
	var renewed, refused []string
	keys := map[string]bool{}
	queue := []Operation{renewalOf(all...)}
	for n := 0; len(queue) > 0; n++ {
		op := queue[0]
		queue = queue[1:]
		if n > 30 || keys[op.Key] {
			t.Fatalf("operation %s: too many steps, or a key used twice", op.ID)
		}
		keys[op.Key] = true
		if !slices.Contains(op.ProxyIDs, bad) {
			renewed = append(renewed, op.ProxyIDs...)
			continue
		}
		f, ok := replied(op, answer(upstream.CodeProxyNotFound, 404)).Facts[0].(fact.CommandRejected)
		if !ok {
			t.Fatal("not refused")
		}
		if len(f.SplitInto) == 0 {
			refused = append(refused, op.ProxyIDs...)
		}
		for _, p := range f.SplitInto {
			next := renewalOf(p.ProxyIDs...)
			next.ID, next.Chunk, next.Key = p.OperationID, p.Chunk, p.Key
			queue = append(queue, next)
		}
	}
	slices.Sort(renewed)
	if want := slices.DeleteFunc(slices.Clone(all), func(id string) bool { return id == bad }); !slices.Equal(renewed, want) || !slices.Equal(refused, []string{bad}) {
		t.Fatalf("renewed %v, refused %v", renewed, refused)
	}
}

// Reads before the POST have shown which proxies are unknown.
func TestAChunkIsSplitByWhatWasRead(t *testing.T) {
	op := renewalOf("a", "b", "c", "d")
	for _, c := range []struct {
		code    upstream.Code
		unknown []string
		want    [][]string
	}{
		{upstream.CodeProxyNotFound, nil, [][]string{{"a", "b"}, {"c", "d"}}},
		{upstream.CodeProxyNotFound, []string{"b", "d"}, [][]string{{"a", "c"}, {"b", "d"}}},
		{upstream.CodeProxyNotFound, []string{"a", "b", "c", "d"}, nil},
		{upstream.CodeValidationError, []string{"b", "d"}, [][]string{{"a", "b"}, {"c", "d"}}},
		{upstream.CodeValidationError, []string{"a", "b", "c", "d"}, [][]string{{"a", "b"}, {"c", "d"}}},
	} {
		d := Decide(op, Replied{Moment: Moment{Now: noon}, Reply: answer(c.code, 404), Unknown: c.unknown})
		f, _ := d.Facts[0].(fact.CommandRejected)
		var got [][]string
		for _, p := range f.SplitInto {
			got = append(got, p.ProxyIDs)
		}
		if !reflect.DeepEqual(got, c.want) || (f.DurationDays == 0) != (c.want == nil) {
			t.Errorf("%s, unknown %v: %v", c.code, c.unknown, got)
		}
	}
}

// The half that expires first continues, and a single proxy is refused. Proxies with an
// unknown expiry come last.
func TestWantOfMoneyCutsAChunk(t *testing.T) {
	for _, c := range []struct{ ids, want []string }{
		{[]string{"a"}, nil}, {[]string{"a", "b"}, []string{"b"}}, {[]string{"a", "b", "c", "d", "e"}, []string{"d", "b"}},
	} {
		d := Decide(renewalOf(c.ids...), Replied{Moment: Moment{Now: noon}, Reply: answer(upstream.CodeInsufficientWallet, 402), Observed: map[string]time.Time{
			"a": noon.Add(3 * time.Hour), "b": noon.Add(2 * time.Hour), "d": noon.Add(time.Hour),
		}})
		f, _ := d.Facts[0].(fact.CommandRejected)
		if !f.ShortOfMoney || len(f.SplitInto) != min(len(c.want), 1)*2 || len(c.want) > 0 && !slices.Equal(f.SplitInto[0].ProxyIDs, c.want) {
			t.Errorf("%v: %+v", c.ids, f)
		}
		if len(c.want) == 0 {
			continue
		}
		rest, ok := d.Facts[1].(fact.CommandRejected)
		if !ok || rest.OperationID != f.SplitInto[1].OperationID || rest.Code != f.Code || len(c.want)+len(f.SplitInto[1].ProxyIDs) != len(c.ids) {
			t.Errorf("%v: the other half is not refused: %+v", c.ids, rest)
		}
	}
}
