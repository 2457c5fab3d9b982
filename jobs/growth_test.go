package jobs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"perennial/queue"
)

// atIntake lists the facts that the intake of a message may append.
var atIntake = []string{"command.accepted", "command.rejected", "command.conflict", "proxy.skipped"}

// grown returns the size of these facts after a journal row, in bytes, and their types.
func (h *rig) grown(behind int) (size int, types []string) {
	h.t.Helper()
	rows, err := h.ledger.Rows(h.t.Context(), int64(behind), 1000)
	check(h.t, err)
	for _, r := range rows {
		if slices.Contains(atIntake, r.Type) {
			size += len(r.Type) + len(r.Operation) + len(r.Data) + len(r.PrevHash) + len(r.Hash) + 16
			types = append(types, fmt.Sprintf("%s %d", r.Type, len(r.Data)))
		}
	}
	return size, types
}

// escaped lists characters that JSON may encode in more bytes than they have.
var escaped = []string{"<", ">", "&", `"`, `\`, "é", "a", "\u2028", "\x7f", "\n", "�", "𝒳", "/"}

// wide draws a text that repeats one character, up to a number of bytes.
func wide(t *rapid.T, name string, most int) string {
	c := rapid.SampledFrom(escaped).Draw(t, name)
	return strings.Repeat(c, rapid.IntRange(1, max(1, most/len(c))).Draw(t, name+" times"))
}

// drawProxies draws the ids of a renewal: reserved and free ones, made of one odd character,
// short or long.
func drawProxies(t *rapid.T, n int) []string {
	switch rapid.SampledFrom([]string{"held", "mixed", "short", "odd", "long"}).Draw(t, "ids") {
	case "held":
		return someIDs("px", rapid.IntRange(1, 2500).Draw(t, "held"))
	case "mixed":
		return append(someIDs("px", rapid.IntRange(1, 2500).Draw(t, "held")), someIDs(fmt.Sprintf("free_%d", n), rapid.IntRange(1, 200).Draw(t, "free"))...)
	case "short":
		var ids []string
		for i := range rapid.IntRange(1, 5000).Draw(t, "short") {
			ids = append(ids, string([]rune{rune('0' + i/75), rune('0' + i%75), rune('0' + n%75)}))
		}
		return ids
	case "odd":
		odd := rapid.SampledFrom(escaped[:6]).Draw(t, "odd")
		var ids []string
		for i := range rapid.IntRange(1, 400).Draw(t, "odds") {
			ids = append(ids, fmt.Sprintf("%d-%d%s", n, i, strings.Repeat(odd, 200/len(odd))))
		}
		return ids
	}
	return someIDs(strings.Repeat("l", 240), rapid.IntRange(1, 400).Draw(t, "long"))
}

// drawLabels draws labels of the largest allowed size, or labels that are not allowed.
func drawLabels(t *rapid.T) map[string]string {
	labels := map[string]string{}
	if rapid.Bool().Draw(t, "few labels") {
		c := rapid.SampledFrom([]string{"<", "&", `"`, `\`, "é"}).Draw(t, "character")
		for i := range rapid.IntRange(0, 7).Draw(t, "labels") {
			labels[fmt.Sprint(i)] = strings.Repeat(c, 250/len(c))
		}
		return labels
	}
	for i := range rapid.IntRange(0, 33).Draw(t, "labels") {
		labels[fmt.Sprint(i)] = wide(t, "label", rapid.SampledFrom([]int{1, 50, 256, 4000}).Draw(t, "size"))
	}
	return labels
}

// drawMessage draws a message in the shortest JSON, valid or not, with every field up to its
// limit.
func drawMessage(t *rapid.T, n int) (kind queue.Kind, data []byte) {
	fields := map[string]any{"id": rapid.SampledFrom([]string{"a", fmt.Sprint("id", n), strings.Repeat("<", 100) + fmt.Sprint(n), strings.Repeat(`"`, 120) + fmt.Sprint(n)}).Draw(t, "id")}
	fields["duration_days"] = rapid.SampledFrom([]int{30, 60, 90, 31}).Draw(t, "days")
	fields["labels"] = drawLabels(t)
	kind = rapid.SampledFrom([]queue.Kind{queue.KindOrderCreate, queue.KindProxyRenew, queue.KindProxyRenew}).Draw(t, "kind")
	if kind == queue.KindProxyRenew {
		fields["proxy_ids"] = drawProxies(t, n)
	} else {
		var items []map[string]any
		for i := range rapid.IntRange(0, 51).Draw(t, "items") {
			items = append(items, map[string]any{"offer_code": fmt.Sprint(i, wide(t, "offer", 250)), "quantity": 1})
		}
		fields["items"] = items
	}
	if rapid.IntRange(0, 9).Draw(t, "unknown") == 0 {
		fields[wide(t, "field", 3000)] = 1
	}
	var text strings.Builder
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false)
	if err := out.Encode(fields); err != nil {
		t.Fatal(err)
	}
	data = []byte(strings.TrimSpace(text.String()))
	if rapid.IntRange(0, 9).Draw(t, "torn") == 0 {
		data = data[:rapid.IntRange(0, len(data)).Draw(t, "at")]
	}
	return kind, data
}

// For any message, its size limits what the intake appends and the reason of a dead letter.
func TestTheJournalGrowsByFourBytesAByte(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	offer, n := h.intake(), 0
	offerAll(t, offer, renewalOfAll("held", someIDs("px", 1000)))
	for i := 1000; i < 2500; i += 50 { // by operations with long names, which each reason would name
		id := fmt.Sprintf("%s%d", strings.Repeat(`"`, 120), i)
		offerAll(t, offer, renewalOfAll(id, someIDs("px", i+50)[i:]))
	}
	rapid.Check(t, func(t *rapid.T) {
		n++
		kind, data := drawMessage(t, n)
		dead, rows := h.said()
		if !offer(kind, data) {
			t.Fatalf("%.200q was put back", data)
		}
		if size, types := h.grown(rows); size > 4*len(data)+4<<10 {
			t.Fatalf("%d bytes of %.300q… became %d: %s", len(data), data, size, types)
		}
		for _, d := range h.dead[dead:] {
			if len(d.Reason) > 600 {
				t.Fatalf("%d bytes of reason for %d bytes", len(d.Reason), len(data))
			}
		}
	})
}
