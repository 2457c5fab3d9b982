// The strict reader of POST bodies.

package sandbox

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// decodeBody reads the one JSON object of a body into v, with the path of what is
// wrong: names are exact, none appears twice, unknown ones are refused (assumed: a
// misspelt field must not pass for its absence), integers are integers, and null
// counts as absent (assumed). The control interface takes names in any case.
func decodeBody(body []byte, v any, options ...jsonv2.Options) *refusal {
	if !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) {
		return invalid("body", "must be a JSON object")
	}
	err := jsonv2.Unmarshal(body, v, append(options, jsonv2.RejectUnknownMembers(true))...)
	if err == nil {
		return nil
	}
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok && errors.Is(err, jsontext.ErrDuplicateName) {
		return invalid(fieldPath(syntax.JSONPointer), "appears twice")
	}
	wrong, ok := errors.AsType[*jsonv2.SemanticError](err)
	switch {
	case !ok:
		return invalid("body", "is not valid JSON")
	case errors.Is(err, jsonv2.ErrUnknownName):
		return invalid(fieldPath(wrong.JSONPointer), "is not a known field")
	}
	return invalid(fieldPath(wrong.JSONPointer), "must be %s", kindWord(wrong.GoType))
}

// fieldPath writes a JSON pointer as the provider's errors write fields:
// items.0.quantity. A long name does not fill the reply.
func fieldPath(p jsontext.Pointer) string {
	var path []string
	for name := range p.Tokens() {
		path = append(path, shorten(name))
	}
	return strings.Join(path, ".")
}

// shorten cuts a name that a client sent.
func shorten(name string) string {
	const enough = 64
	switch {
	case name == "":
		return `""`
	case len(name) <= enough:
		return name
	}
	cut := enough
	for !utf8.RuneStart(name[cut]) {
		cut--
	}
	return name[:cut] + "…"
}

func kindWord(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Slice:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "a JSON object"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	default:
		return "an integer"
	}
}
