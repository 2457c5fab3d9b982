// The descriptions in the schemas: of fields their tags `doc`, of types their doc comments,
// which are kept in a file that is part of the binary.

package cli

import (
	_ "embed"
	"encoding/json"
	"reflect"
	"regexp"
	"strings"

	"github.com/invopop/jsonschema"
)

// schemaWordsFile has the comment of each type whose JSON is published, made from the
// sources by the tests with -update.
//
//go:embed schema_words.json
var schemaWordsFile []byte

// readSchemaWords are the comments by type: "fact.Line".
func readSchemaWords() (map[string]string, error) {
	var words map[string]string
	err := json.Unmarshal(schemaWordsFile, &words)
	return words, err
}

// describer gives each schema of a type the words and the bounds of its fields. With nulls
// a field may be null that Go writes so: a pointer, a list or a map that is left empty.
type describer struct {
	words map[string]string
	nulls bool
}

// typeName is a type as the tables name it: fact.Line.
func typeName(t reflect.Type) string { return t.String() }

// describe adds to the schema of a type what the tables say of it and of its fields.
func (d describer) describe(t reflect.Type, s *jsonschema.Schema) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if bound, ok := typeRules[typeName(t)]; ok {
		bound(s)
	}
	switch {
	case t.Kind() == reflect.Slice && s.Items != nil:
		d.describe(t.Elem(), s.Items)
	case t.Kind() == reflect.Map && s.AdditionalProperties != nil:
		d.describe(t.Elem(), s.AdditionalProperties)
	case t.Kind() == reflect.Struct && s.Properties != nil:
		d.fields(t, s)
	}
}

// fields describes the properties of a struct, those of structs within it too.
func (d describer) fields(t reflect.Type, s *jsonschema.Schema) {
	for f := range fieldsOf(t) {
		if f.Anonymous {
			d.fields(f.Type, s)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		p, ok := s.Properties.Get(name)
		if !ok {
			continue
		}
		d.describe(f.Type, p)
		p.Description = d.ofField(f)
		for _, key := range []string{name, typeName(t) + "." + f.Name} {
			if bound, ok := fieldRules[key]; ok {
				bound(p)
			}
		}
		if d.nulls && mayBeNull(f) && p.Type != "" {
			orNull(p)
		}
	}
}

// mayBeNull says whether a field that is empty is written as null.
func mayBeNull(f reflect.StructField) bool {
	switch f.Type.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return !strings.Contains(f.Tag.Get("json"), ",omit")
	}
	return false
}

// fieldsOf are the fields of a struct, without those that have no JSON.
func fieldsOf(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for f := range t.Fields() {
			if (f.IsExported() || f.Anonymous) && !yield(f) {
				return
			}
		}
	}
}

// quoted are the names that a tag quotes: a tag holds no backtick.
var quoted = regexp.MustCompile(`(^|[ (])'([a-z0-9_]+(?: [a-z]+)*)'`)

// ofField is the tag `doc` of a field, else the comment on its type.
func (d describer) ofField(f reflect.StructField) string {
	if text := f.Tag.Get("doc"); text != "" {
		return quoted.ReplaceAllString(text, "$1`$2`")
	}
	of := f.Type
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	return d.words[typeName(of)]
}
