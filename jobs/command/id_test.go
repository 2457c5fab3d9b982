package command

import (
	"strings"
	"testing"

	"perennial/ledger/fact"
)

// Two ids that look alike are not two purchases: one with a blank at an end, or in another
// Unicode form, is refused.
func TestIDsThatLookAlikeAreRefused(t *testing.T) {
	for id, says := range map[string]string{
		" x": "begins or ends with a blank", "x ": "begins or ends with a blank", "x\u00a0": "cannot be printed", "\u3000x": "cannot be printed", "x\t": "cannot be printed",
		"e\u0301": `use "\u00e9"`, "\u212b": "not in Unicode NFC", "x y": "", "\u00e9": "", "北京-1": "",
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
