package jobs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"
)

// errUnreadable marks a message that is no JSON object at all.
var errUnreadable = errors.New("unreadable")

// decodeStrict reads one JSON object into v, a pointer to a struct. Beyond what
// encoding/json refuses, it refuses a key that stands twice and a key that
// differs from a field in its case: either could hide a ceiling.
func decodeStrict(data []byte, v any) error {
	if !utf8.Valid(data) {
		return fmt.Errorf("%w: the text is not UTF-8", errUnreadable)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return fmt.Errorf("%w: a command is one JSON object", errUnreadable)
	}
	if err := checkObject(d, reflect.TypeOf(v).Elem(), ""); err != nil {
		if !json.Valid(data) {
			return fmt.Errorf("%w: the text is not valid JSON", errUnreadable)
		}
		return err
	}
	d = json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return readable(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something follows the JSON object", errUnreadable)
	}
	return nil
}

// readable turns a decoder's error into one that names the field and the fix.
func readable(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("field %q is a JSON %s and must be %s", wrong.Field, wrong.Value, words(wrong.Type))
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}

func words(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int64:
		return "a whole number"
	case reflect.String:
		return "text"
	case reflect.Slice:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	default:
		return "a " + t.String()
	}
}

// checkObject walks the members of an object whose opening brace was read.
func checkObject(d *json.Decoder, t reflect.Type, path string) error {
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		if seen[key] {
			return fmt.Errorf("field %q stands twice: keep one", path+key)
		}
		seen[key] = true
		member, err := memberType(t, key, path)
		if err != nil {
			return err
		}
		if err := checkValue(d, member, path+key); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

// memberType is the type of a struct's member by its exact JSON name; nil means
// that anything may stand there.
func memberType(t reflect.Type, key, path string) (reflect.Type, error) {
	if t == nil || t.Kind() != reflect.Struct {
		return nil, nil //nolint:nilnil // no type is an answer: anything may stand there
	}
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == key {
			return field.Type, nil
		}
	}
	return nil, fmt.Errorf("field %q is not known: check its spelling against the documentation", path+key)
}

// checkValue walks one value: into objects of a known type and lists of them.
func checkValue(d *json.Decoder, t reflect.Type, path string) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch token {
	case json.Delim('{'):
		return checkObject(d, t, path+".")
	case json.Delim('['):
		var element reflect.Type
		if t != nil && t.Kind() == reflect.Slice {
			element = t.Elem()
		}
		for i := 0; d.More(); i++ {
			if err := checkValue(d, element, fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
		_, err = d.Token()
	}
	return err
}
