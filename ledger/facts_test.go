package ledger

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
)

// fill gives every field of a value something that is not its zero.
func fill(v reflect.Value) {
	if !v.CanSet() {
		return
	}
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(noon.Add(1500 * time.Microsecond)))
		return
	case json.RawMessage:
		v.Set(reflect.ValueOf(json.RawMessage(`{"a":9007199254740993}`)))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0))
		fill(v.Index(1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value)
		v.SetMapIndex(reflect.ValueOf("key <&>"), value)
	case reflect.String:
		v.SetString("text \"with\" <all> & \u2028 kinds")
	case reflect.Int, reflect.Int64:
		v.SetInt(9007199254740993) // a float would lose the last digit
	case reflect.Bool:
		v.SetBool(true)
	}
}

// samples is one full fact of every type.
func samples(t *testing.T) map[string]Fact {
	t.Helper()
	all := map[string]Fact{}
	for name, decode := range decoders {
		zero, err := decode([]byte(`{}`))
		check(t, err)
		v := reflect.New(reflect.TypeOf(zero)).Elem()
		fill(v)
		if status := v.FieldByName("Status"); strings.HasPrefix(name, "renewal.") {
			status.SetString(strings.TrimPrefix(name, "renewal."))
		}
		all[name], _ = reflect.TypeAssert[Fact](v)
	}
	return all
}

func TestTrap25EveryFactReadsBackAsItWasWritten(t *testing.T) {
	for name, fact := range samples(t) {
		if fact.FactType() != name {
			t.Errorf("%s calls itself %s", name, fact.FactType())
		}
		data, err := encode(fact)
		check(t, err)
		back, err := DecodeFact(name, data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !reflect.DeepEqual(back, fact) {
			t.Errorf("%s came back as\n%+v, was\n%+v", name, back, fact)
		}
		again, err := encode(back)
		check(t, err)
		if string(again) != string(data) {
			t.Errorf("%s is written differently the second time:\n%s\n%s", name, data, again)
		}
	}
}

func TestAFactOfALaterVersionIsNotReadWithHalfOfIt(t *testing.T) {
	for name := range decoders {
		if _, err := DecodeFact(name, []byte(`{"field_of_tomorrow":1}`)); err == nil || !strings.Contains(err.Error(), "field_of_tomorrow") {
			t.Errorf("%s with an unknown field: %v", name, err)
		}
		if _, err := DecodeFact(name, []byte(`{`)); err == nil {
			t.Errorf("%s torn in the middle was read", name)
		}
	}
	if _, err := DecodeFact("order.teleported", []byte(`{}`)); err == nil || !strings.Contains(err.Error(), "order.teleported") {
		t.Errorf("an unknown type: %v", err)
	}
}

func TestEveryFactTypeHasAFoldAndAReader(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range history() {
		seen[f.FactType()] = true
	}
	for name := range decoders {
		if !seen[name] {
			t.Errorf("the history of these tests has no %s", name)
		}
	}
}

func TestEventsAreCloudEventsThatCarryTheJournalUnchanged(t *testing.T) {
	for name, fact := range samples(t) {
		data, err := encode(fact)
		check(t, err)
		row := Row{Seq: 7, Type: name, Time: micros(noon), Operation: fact.Subject(), Data: string(data), PrevHash: genesis}
		_, row.Hash = hashRow(nil, row)
		text, err := row.Event("main", "e1")
		check(t, err)
		var event CloudEvent
		if err := json.Unmarshal(text, &event); err != nil {
			t.Errorf("%s is not JSON: %v\n%s", name, err, text)
			continue
		}
		want := CloudEvent{
			SpecVersion: "1.0", ID: "main/e1/7", Source: "perennial/main", Type: "perennial." + name + ".v1", Subject: fact.Subject(),
			Time: noon, DataContentType: "application/json", Data: event.Data,
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
	text, err := Row{Seq: 1, Type: "x.y", Data: "{}", PrevHash: genesis, Hash: genesis}.Event("main", "e1")
	check(t, err)
	var event map[string]json.RawMessage
	check(t, json.Unmarshal(text, &event))
	if _, there := event["subject"]; there || !strings.HasPrefix(string(event["data"]), `{"ledger":`) {
		t.Fatalf("%s", text)
	}
}

// An outsider who has only the events can recompute the chain: the hash is over
// named, length-prefixed fields, so no two rows have one encoding.
func TestTwoRowsThatConcatenateAlikeHaveDifferentHashes(t *testing.T) {
	_, a := hashRow(nil, Row{Type: "ab", Operation: "c", PrevHash: genesis})
	_, b := hashRow(nil, Row{Type: "a", Operation: "bc", PrevHash: genesis})
	if a == b {
		t.Fatal("fields run into one another")
	}
	_, golden := hashRow(nil, Row{Seq: 1, Type: "ledger.opened", Time: micros(noon), Operation: "", Data: `{}`, PrevHash: genesis})
	if want := "e07bf033c1f88cb7c2c5b7e6aa77ea19969a1f728d8b9b7141f199233e25d005"; golden != want {
		t.Fatalf("the hash of a row changed from %s to %s: every journal written before would be called broken", want, golden)
	}
}

// encode gives a fact's JSON as the journal would hold it.
func encode(f Fact) ([]byte, error) {
	text, err := emptyWriter(nil).encode(f)
	return []byte(text), err
}
