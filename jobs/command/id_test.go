package command

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"perennial/ledger/fact"
)

// Two ids that look alike must not make two purchases: an id with a blank at an end, or in
// another Unicode form, is refused.
func TestIDsThatLookAlikeAreRefused(t *testing.T) {
	for id, says := range map[string]string{
		" x": "begins or ends with a blank", "x ": "begins or ends with a blank", "x\u00a0": "cannot be printed", "\u3000x": "cannot be printed", "x\t": "cannot be printed",
		"e\u0301": `use "\u00e9"`, "\u212b": "not in Unicode NFC", "x y": "", "\u00e9": "", "北京-1": "",
		strings.Repeat("\u00e9", 128): "", strings.Repeat("\u00e9", 129): "129 characters of at most 128", strings.Repeat("𠀀", 126): "504 bytes",
	} {
		err := CheckID(id)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%+q: %v", id, err)
		}
		_, err = Parse(fact.KindRenewal, []byte(`{"id":"`+strings.ReplaceAll(id, "\t", `\t`)+`","duration_days":30,"proxy_ids":["px_1"]}`), Rules{})
		if (err == nil) != (says == "") {
			t.Errorf("%+q, parsed: %v", id, err)
		}
	}
}

// A command with an operation's id would hide that operation. Plan makes no other forms of
// ids.
func TestIDsOfOperationsAreRefused(t *testing.T) {
	ids := make([]string, MaxProxyIDs)
	for i := range ids {
		ids[i] = fmt.Sprint("px_", i)
	}
	var made []fact.Planned
	for _, careful := range []bool{false, true} {
		made = append(made, Command{ID: "pay", Kind: fact.KindRenewal}.Operations(someBinding, ids, careful)...)
	}
	made = append(made, Command{ID: "pay", Kind: fact.KindOrder}.Operations(someBinding, nil, false)...)
	for _, p := range slices.Clone(made) {
		for _, chunk := range []string{p.Chunk, p.Chunk + "a", p.Chunk + "abba"} {
			made = append(made, Plan(someBinding, fact.KindRenewal, "pay", p.Chunk, 2, nil))
			if p.Chunk != "1" {
				made = append(made, Plan(someBinding, fact.KindRenewal, "pay", chunk, 1, nil), Plan(someBinding, fact.KindRenewal, "pay", fact.LineChunk(chunk, "a b/c~1"), 12, nil))
			}
		}
	}
	for _, p := range made {
		if err := CheckID(p.OperationID); err == nil || !strings.Contains(err.Error(), "as the ids of operations do") {
			t.Errorf("%s: %v", p.OperationID, err)
		}
	}
	for _, id := range []string{"pay", "pay/2", "pay/2026", "pay/11", "a/1/b", "pay/0001/px_1", "1", "0001", "pay-1", "restock/01", "pay/0001c"} {
		if err := CheckID(id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}
