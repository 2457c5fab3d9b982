package command

import (
	"bytes"
	"encoding/json"
	"testing"

	"perennial/ledger/fact"
)

// Older versions stored commands with escaped text. Such a command must keep its hash.
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

// A dead letter does not belong to every command whose id it mentions.
func TestADeadLetterIsOfTheCommandWithItsID(t *testing.T) {
	for message, want := range map[string]bool{
		`{"id":"buy-1","items":[]}`:                 true,
		`{"id" : "buy-1", "items": [`:               true, // not JSON
		`{"command_id":"buy-1"}`:                    true, // refused because it has no id
		`{"id":"other","labels":{"after":"buy-1"}}`: false,
		`{"id":"buy-10"`:                            false,
		`nothing`:                                   false,
	} {
		if got := MayHaveID([]byte(message), "buy-1"); got != want {
			t.Errorf("%s: %v", message, got)
		}
	}
}
