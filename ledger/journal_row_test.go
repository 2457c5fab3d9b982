package ledger

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

func TestEventsAreCloudEventsThatCarryTheJournalUnchanged(t *testing.T) {
	odd := fact.CommandRejected{Ref: fact.Ref{CommandID: "text \"with\" <all> & \u2028 kinds", Labels: map[string]string{"key <&>": "\x7f"}}, Reason: "9007199254740993"}
	for _, fact := range append(history(), fact.Fact(odd)) {
		name := fact.FactType()
		data, err := encode(fact)
		check(t, err)
		row := chain.Row{Seq: 7, Type: name, Time: sqlite.Micros(noon), Operation: fact.Subject(), Data: string(data), PrevHash: chain.Genesis}
		_, row.Hash = chain.Hash(nil, row)
		text, err := row.Event("main")
		check(t, err)
		var event chain.CloudEvent
		if err := json.Unmarshal(text, &event); err != nil {
			t.Errorf("%s is not JSON: %v\n%s", name, err, text)
			continue
		}
		want := chain.CloudEvent{
			SpecVersion: "1.0", ID: "main/" + row.Hash[:16] + "/7", Source: "perennial/main", Type: "perennial." + name + ".v1", Subject: fact.Subject(),
			Time: noon, DataContentType: "application/json", DataSchema: "urn:perennial:schema:" + name + ":v1", Data: event.Data,
		}
		if !reflect.DeepEqual(event, want) {
			t.Errorf("%s: %+v", name, event)
		}
		place := `,"ledger":{"seq":7,"prev_hash":"` + row.PrevHash + `","hash":"` + row.Hash + `"}}`
		before, ok := strings.CutSuffix(string(event.Data), place)
		if !ok || before+"}" != row.Data {
			t.Errorf("%s: data is not the journal's data with its place:\n%s\n%s", name, event.Data, row.Data)
		}
	}
}

func TestAnEventOfAnEmptyFactIsStillJSON(t *testing.T) {
	text, err := chain.Row{Seq: 1, Type: "x.y", Data: "{}", PrevHash: chain.Genesis, Hash: chain.Genesis}.Event("main")
	check(t, err)
	var event map[string]json.RawMessage
	check(t, json.Unmarshal(text, &event))
	if _, there := event["subject"]; there || !strings.HasPrefix(string(event["data"]), `{"ledger":`) {
		t.Fatalf("%s", text)
	}
}

// An outsider with only the events can recompute the chain. The hash covers length-prefixed
// fields, so no two rows have the same encoding.
func TestTwoRowsThatConcatenateAlikeHaveDifferentHashes(t *testing.T) {
	_, a := chain.Hash(nil, chain.Row{Type: "ab", Operation: "c", PrevHash: chain.Genesis})
	_, b := chain.Hash(nil, chain.Row{Type: "a", Operation: "bc", PrevHash: chain.Genesis})
	if a == b {
		t.Fatal("fields run into one another")
	}
	_, golden := chain.Hash(nil, chain.Row{Seq: 1, Type: "ledger.opened", Time: sqlite.Micros(noon), Operation: "", Data: `{}`, PrevHash: chain.Genesis})
	if want := "e07bf033c1f88cb7c2c5b7e6aa77ea19969a1f728d8b9b7141f199233e25d005"; golden != want {
		t.Fatalf("the hash of a row changed from %s to %s: every journal written before would be called broken", want, golden)
	}
}

// encode returns a fact's JSON as the journal would hold it.
func encode(f fact.Fact) ([]byte, error) {
	text, err := new(writer).encode(f)
	return []byte(text), err
}
