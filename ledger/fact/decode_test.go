package fact

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

// fill sets every field of a value to something other than zero.
func fill(v reflect.Value) {
	if !v.CanSet() {
		return
	}
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(someTime.Add(1500 * time.Microsecond)))
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
	case reflect.Uint64:
		v.SetUint(9007199254740993)
	case reflect.Int, reflect.Int64:
		v.SetInt(9007199254740993) // a float would lose the last digit
	case reflect.Bool:
		v.SetBool(true)
	}
}

// samples returns one full fact of every type.
func samples(t *testing.T) map[string]Fact {
	t.Helper()
	all := map[string]Fact{}
	for name, of := range types {
		v := reflect.New(of).Elem()
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
		data, err := encoded(fact)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Decode(name, data)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !reflect.DeepEqual(back, fact) {
			t.Errorf("%s came back as\n%+v, was\n%+v", name, back, fact)
		}
		again, err := encoded(back)
		if err != nil {
			t.Fatal(err)
		}
		if string(again) != string(data) {
			t.Errorf("%s is written differently the second time:\n%s\n%s", name, data, again)
		}
	}
}

func TestEveryTypeOfFactIsListed(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, of := range types {
		listed[of.Name()] = true
	}
	found := 0
	for _, name := range names {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func \((?:\w+ )?(\w+)\) FactType\(`).FindAllSubmatch(source, -1) {
			if found++; !listed[string(m[1])] {
				t.Errorf("%s cannot be read back: it is not among the types of decode.go", m[1])
			}
		}
	}
	if found != len(listed) {
		t.Errorf("%d types of fact in the sources, %d listed", found, len(listed))
	}
}

func TestAFactOfALaterVersionIsNotHalfRead(t *testing.T) {
	for name := range types {
		if _, err := Decode(name, []byte(`{"field_of_tomorrow":1}`)); err == nil || !strings.Contains(err.Error(), "field_of_tomorrow") {
			t.Errorf("%s with an unknown field: %v", name, err)
		}
		if _, err := Decode(name, []byte(`{`)); err == nil {
			t.Errorf("%s torn in the middle was read", name)
		}
	}
	for data, want := range map[string]UnknownError{`{}`: {Type: "order.teleported"}, `{"movement":"top-up","cause":1}`: {Type: "ledger.recorded", Field: "cause"}} {
		_, err := Decode(want.Type, []byte(data))
		if unknown, ok := errors.AsType[*UnknownError](err); !ok || *unknown != want || !strings.Contains(err.Error(), want.Type) {
			t.Errorf("%s %s: %v", want.Type, data, err)
		}
	}
}

var someTime = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// encoded returns a fact's JSON as the journal holds it.
func encoded(f Fact) ([]byte, error) {
	var text bytes.Buffer
	err := Encode(&text, f)
	return text.Bytes(), err
}
