package command

import (
	"bytes"
	"encoding/json"
	"testing"

	"perennial/ledger/fact"
)

// TestTheHashOfAContentIsThatOfEscapedText: a command that was accepted by an
// older version, which stored it so, is known again.
func TestTheHashOfAContentIsThatOfEscapedText(t *testing.T) {
	for _, label := range []string{"plain", "<b>", "a&b", "é"} {
		c := Command{ID: "a", Kind: fact.KindRenewal, DurationDays: 30, ProxyIDs: []string{"px_1"}, Labels: map[string]string{"team": label}}
		stored, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		content, hash, err := c.Content()
		if err != nil {
			t.Fatal(err)
		}
		back, err := ReadContent(content)
		if err != nil {
			t.Fatal(err)
		}
		if hash != MessageHash(stored) || !bytes.Contains(content, []byte(label)) || back.Labels["team"] != label {
			t.Errorf("%s of %s is not the hash of %s", hash, content, stored)
		}
	}
}
