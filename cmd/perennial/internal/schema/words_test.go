// The descriptions in the schemas: those of fields are their `doc` tags, those of types their doc
// comments.

package schema

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/invopop/jsonschema"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs"
	"perennial/jobs/command"
	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/queue/letters"
	"perennial/queue/service"
)

// describer adds descriptions and limits to the schema of a type. With nulls it allows null for a
// field that Go writes as null: an empty pointer, list or map.
type describer struct {
	words map[string]string
	nulls bool
}

// typeName returns a type's name as the tables have it: fact.Line.
func typeName(t reflect.Type) string { return t.String() }

// describe adds the tables' rules for a type and its fields to the schema.
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

// fields describes the properties of a struct, including those of embedded structs.
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

// mayBeNull reports whether an empty field is written as null.
func mayBeNull(f reflect.StructField) bool {
	switch f.Type.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return !strings.Contains(f.Tag.Get("json"), ",omit")
	}
	return false
}

// fieldsOf returns the fields of a struct that may have JSON.
func fieldsOf(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for f := range t.Fields() {
			if (f.IsExported() || f.Anonymous) && !yield(f) {
				return
			}
		}
	}
}

// quoted matches the names that a tag puts in single quotes, because a tag cannot contain a
// backtick.
var quoted = regexp.MustCompile(`(^|[ (])'([a-z0-9_]+(?: [a-z]+)*)'`)

// ofField returns the tag `doc` of a field, or else the comment on its type.
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

// publishedTypes returns the structs whose JSON is published, by name.
func publishedTypes() map[string]reflect.Type {
	all := map[string]reflect.Type{}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct || !strings.HasPrefix(t.PkgPath(), "perennial/") {
			return
		}
		all[typeName(t)] = t
		for f := range fieldsOf(t) {
			add(f.Type)
		}
	}
	add(reflect.TypeFor[chain.Place]())
	add(reflect.TypeFor[letters.Kept]())
	add(reflect.TypeFor[service.ErrorBody]())
	add(reflect.TypeFor[jobs.Refusal]())
	for _, v := range verbs.All() {
		add(v.Request)
		add(v.Answer)
	}
	for _, f := range fact.Types() {
		add(reflect.TypeOf(f))
	}
	for _, shape := range command.Shapes() {
		add(reflect.TypeOf(shape))
	}
	return all
}

// commentsOf returns the comments on types, as schemas have them.
func commentsOf(t *testing.T, types map[string]reflect.Type) map[string]string {
	t.Helper()
	words := map[string]string{}
	dirs := map[string]bool{}
	for _, of := range types {
		dirs[strings.TrimPrefix(of.PkgPath(), "perennial/")] = true
	}
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		files, err := filepath.Glob("../../../../" + dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range parsed.Decls {
				if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE && !strings.HasSuffix(file, "_test.go") {
					addComments(words, filepath.Base(dir), g, types)
				}
			}
		}
	}
	return words
}

func addComments(words map[string]string, pkg string, g *ast.GenDecl, types map[string]reflect.Type) {
	for _, spec := range g.Specs {
		x, _ := spec.(*ast.TypeSpec)
		name := pkg + "." + x.Name.Name
		_, isStruct := x.Type.(*ast.StructType)
		if !isStruct || types[name] == nil || !x.Name.IsExported() {
			continue
		}
		text := strings.TrimPrefix(strings.Join(strings.Fields(g.Doc.Text()), " "), x.Name.Name+" ")
		text = strings.TrimPrefix(strings.TrimPrefix(text, "is "), "are ")
		words[name] = sentence(types[name], text)
	}
}

var goWord = regexp.MustCompile(`\b[A-Z][A-Za-z]*\b`)

// sentence replaces the Go names of fields in a comment by their JSON names.
func sentence(t reflect.Type, text string) string {
	names := map[string]string{}
	var collect func(t reflect.Type)
	collect = func(t reflect.Type) {
		for f := range fieldsOf(t) {
			if f.Anonymous {
				collect(f.Type)
				continue
			}
			names[f.Name], _, _ = strings.Cut(f.Tag.Get("json"), ",")
		}
	}
	collect(t)
	text = goWord.ReplaceAllStringFunc(text, func(word string) string {
		if name := names[word]; name != "" {
			return "`" + name + "`"
		}
		return word
	})
	first := []rune(text)
	first[0] = unicode.ToUpper(first[0])
	if text = string(first); strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}

func TestEveryFieldOfASchemaIsDescribed(t *testing.T) {
	files, err := Files()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if name == "asyncapi.json" {
			continue
		}
		var schema map[string]any
		if err := json.Unmarshal(files[name], &schema); err != nil {
			t.Fatal(err)
		}
		if id, _ := schema["$id"].(string); id != "urn:perennial:schema:"+strings.TrimSuffix(name, ".json")+":v1" {
			t.Errorf("%s has the $id %q", name, id)
		}
		if schema["description"] == "" {
			t.Errorf("%s has no description", name)
		}
		undescribed(schema, func(path string) { t.Errorf("%s: %s has no description", name, path) })
	}
}

// undescribed calls found for each property of a schema without a description.
func undescribed(schema map[string]any, found func(path string)) {
	properties, _ := schema["properties"].(map[string]any)
	for name, value := range properties {
		property, _ := value.(map[string]any)
		if text, _ := property["description"].(string); text == "" {
			found(name)
		}
		undescribed(property, func(path string) { found(name + "." + path) })
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if inner, ok := schema[key].(map[string]any); ok {
			undescribed(inner, func(path string) { found("[]." + path) })
		}
	}
	parts, _ := schema["allOf"].([]any)
	for _, part := range parts {
		if inner, ok := part.(map[string]any); ok {
			undescribed(inner, found)
		}
	}
}
