package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// errUnreadable says that a message is not one valid JSON object.
var errUnreadable = errors.New("unreadable")

// decodeStrict decodes one JSON object into v, a pointer to a struct. It refuses unknown and
// duplicate fields and fields in the wrong case, because any of them could hide a limit on
// cost.
func decodeStrict(data []byte, v any) error {
	if !bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{")) {
		return fmt.Errorf("%w: a command is one JSON object", errUnreadable)
	}
	return decodeMembers(data, v)
}

// DecodeRequest decodes the body of a service request into v, a pointer to a struct. It is
// as strict as decodeStrict, because a duplicate or misspelt field could hide a reason or an
// amount. An empty body or null leaves v unchanged.
func DecodeRequest(data []byte, v any) error {
	body := bytes.TrimSpace(data)
	switch {
	case len(body) == 0, string(body) == "null":
		return nil
	case body[0] != '{':
		return errors.New("a request is one JSON object")
	}
	return decodeMembers(data, v)
}

// decodeMembers decodes data whose first character opens a JSON object.
func decodeMembers(data []byte, v any) error {
	err := jsonv2.Unmarshal(data, v, jsonv2.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	switch {
	case !utf8.Valid(data):
		return fmt.Errorf("%w: the text is not UTF-8", errUnreadable)
	case errors.Is(err, jsontext.ErrDuplicateName):
		if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
			return fmt.Errorf("field %q appears twice: keep one", fieldPath(syntax.JSONPointer))
		}
	case errors.Is(err, jsonv2.ErrUnknownName):
		if wrong, ok := errors.AsType[*jsonv2.SemanticError](err); ok {
			return fmt.Errorf("field %q is not known%s", fieldPath(wrong.JSONPointer), knownFields(wrong))
		}
	case !json.Valid(data):
		where := ""
		if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
			if syntax.ByteOffset >= int64(len(data)) {
				return fmt.Errorf("%w: the text is not valid JSON: it ends too early", errUnreadable)
			}
			where = fmt.Sprintf(" from byte %d on", syntax.ByteOffset+1)
		}
		return fmt.Errorf("%w: the text is not valid JSON%s, or something follows the JSON object", errUnreadable, where)
	}
	if wrong, ok := errors.AsType[*jsonv2.SemanticError](err); ok {
		return readable(wrong)
	}
	return err
}

// knownFields suggests the known field whose name is closest to that of an unknown field. If
// none is close, it lists the known fields.
func knownFields(wrong *jsonv2.SemanticError) string {
	if wrong.GoType == nil || wrong.GoType.Kind() != reflect.Struct {
		return ""
	}
	unknown, nearest, within := wrong.JSONPointer.LastToken(), "", 4
	var known []string
	for _, f := range reflect.VisibleFields(wrong.GoType) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		known = append(known, name)
		if d := levenshtein.ComputeDistance(unknown, name); d < within {
			nearest, within = name, d
		}
	}
	if nearest != "" {
		return fmt.Sprintf(": did you mean %q?", nearest)
	}
	return ": the fields here are " + strings.Join(known, ", ")
}

// readable rewrites a decoding error so that it says which field is wrong and what the
// field must be.
func readable(wrong *jsonv2.SemanticError) error {
	field := fieldPath(wrong.JSONPointer)
	must := words(wrong.GoType)
	switch {
	case wrong.Err != nil && wrong.JSONKind == '"' && must == anInstant:
		return fmt.Errorf("field %q must be %s", field, must)
	case wrong.Err != nil && wrong.JSONKind == '"':
		return fmt.Errorf("field %q: %w", field, wrong.Err)
	case wrong.JSONKind == '0' && must == aWholeNumber:
		return fmt.Errorf("field %q must be %s, without a point or an exponent, and at most %d", field, must, math.MaxInt64)
	}
	return fmt.Errorf("field %q is %s and must be %s", field, jsonKinds[byte(wrong.JSONKind)], must)
}

var jsonKinds = map[byte]string{'n': "null", 't': "true", 'f': "false", '"': "text", '0': "a number", '{': "an object", '[': "a list"}

const (
	aWholeNumber = "a whole number"
	anInstant    = "an instant as 2026-11-25T00:00:00Z"
)

// fieldPath formats a JSON pointer as a field path, such as items[0].quantity.
func fieldPath(p jsontext.Pointer) string {
	var path strings.Builder
	for token := range p.Tokens() {
		switch {
		case strings.Trim(token, "0123456789") == "":
			path.WriteString("[" + token + "]")
		case path.Len() > 0:
			path.WriteString("." + token)
		default:
			path.WriteString(token)
		}
	}
	return path.String()
}

func words(t reflect.Type) string {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == nil:
		return "something else"
	case t.Kind() == reflect.Int64, t.Kind() == reflect.Int:
		return aWholeNumber
	case t.Kind() == reflect.Uint64:
		return "a whole number, 0 or more"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.String:
		return "text"
	case t.Kind() == reflect.Slice:
		return "a list"
	case t.Kind() == reflect.Map || t.Kind() == reflect.Struct && t.Name() != "Time":
		return "an object"
	}
	return anInstant
}
