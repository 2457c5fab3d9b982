package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agnivade/levenshtein"
	"go.yaml.in/yaml/v3"
)

const (
	// maxValues limits the number of values in the file after the aliases are expanded.
	maxValues = 1 << 19
	// maxFaults limits the faults in one error.
	maxFaults = 20
)

// decoder decodes a YAML tree into a structure and collects every fault. Each field with a yaml
// tag is a key.
type decoder struct {
	lines  map[string]int // line number of each key in the file, by path, such as schedules[0].cron
	faults []fault
	// unknownKeys is how many of the faults are keys that do not exist.
	unknownKeys int
	values      int // number of values read so far
}

// fault is one error in the file. line is the line of the key, or of the nearest enclosing key.
// It is 0 if the file has none of them.
type fault struct {
	line int
	says string
}

func (d *decoder) faultf(n *yaml.Node, format string, args ...any) {
	d.faults = append(d.faults, fault{n.Line, fmt.Sprintf(format, args...)})
}

// check adds an error as a fault. The error's text begins with the path of a key.
func (d *decoder) check(err error) {
	d.faults = append(d.faults, fault{d.lineOf(err.Error()), err.Error()})
}

// err returns one error with all faults in the order of the file. It returns nil if there are no
// faults.
func (d *decoder) err(path string) error {
	if len(d.faults) == 0 {
		return nil
	}
	slices.SortStableFunc(d.faults, func(a, b fault) int { return cmp.Compare(a.line, b.line) })
	var said []string
	for _, f := range d.faults[:min(len(d.faults), maxFaults)] {
		if f.line > 0 {
			f.says = "line " + strconv.Itoa(f.line) + ": " + f.says
		}
		said = append(said, f.says)
	}
	if more := len(d.faults) - maxFaults; more > 0 {
		said = append(said, fmt.Sprintf("and %d more", more))
	}
	if len(said) == 1 {
		return invalid("configuration %s: %s", path, said[0])
	}
	return invalid("configuration %s has %d faults:\n  %s", path, len(d.faults), strings.Join(said, "\n  "))
}

// lineOf returns the line number of the key whose path begins the text. If the file lacks this
// key, it returns the line of the nearest enclosing key. If the file has none of these keys, it
// returns 0.
func (d *decoder) lineOf(words string) int {
	path, _, _ := strings.Cut(words, " ")
	path = strings.TrimSuffix(path, ":")
	for path != "" && d.lines[path] == 0 {
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return d.lines[path]
}

// document decodes the first YAML document. It refuses a second document, because a second
// document would have no effect.
func (d *decoder) document(text []byte, into any) error {
	var first, second yaml.Node
	from := yaml.NewDecoder(bytes.NewReader(text))
	if err := from.Decode(&first); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if len(first.Content) > 0 {
		d.read(first.Content[0], reflect.ValueOf(into).Elem(), "")
	}
	if err := from.Decode(&second); !errors.Is(err, io.EOF) {
		second.Line = max(second.Line, 1)
		d.faultf(&second, "a second document begins here, which would have no effect: remove the line ---")
	}
	return nil
}

// read sets v to the node's value. It treats an empty value as absent. An empty whole number is
// a fault, because an empty limit must not mean no limit.
func (d *decoder) read(n *yaml.Node, v reflect.Value, path string) {
	n = target(n)
	switch {
	case !d.count(n):
	case isInteger(v.Type()):
		d.integer(n, v, path)
	case n.ShortTag() == "!!null":
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.read(n, v.Elem(), path)
	case v.Kind() == reflect.Struct && n.Kind == yaml.MappingNode:
		d.structure(n, v, path)
	case v.Kind() == reflect.Map && n.Kind == yaml.MappingNode:
		v.Set(reflect.MakeMap(v.Type()))
		for _, p := range d.pairs(n, path) {
			one := reflect.New(v.Type().Elem()).Elem()
			d.member(p, one, path)
			v.SetMapIndex(reflect.ValueOf(p.key.Value), one)
		}
	case v.Kind() == reflect.Slice && n.Kind == yaml.SequenceNode:
		v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
		for i, one := range n.Content {
			at := path + "[" + strconv.Itoa(i) + "]"
			d.lines[at] = one.Line
			d.read(one, v.Index(i), at)
		}
	default:
		d.scalar(n, v, path)
	}
}

// count adds a node to the number of values and reports whether the decoder may read it.
// There is a limit because aliases can expand a small file to gigabytes.
func (d *decoder) count(n *yaml.Node) bool {
	most := d.values <= maxValues
	if d.values += 1 + len(n.Content); most && d.values > maxValues {
		d.faultf(n, "aliases make more than %d values of the file: write fewer", maxValues)
	}
	return d.values <= maxValues
}

func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func (d *decoder) structure(n *yaml.Node, v reflect.Value, path string) {
	for _, p := range d.pairs(n, path) {
		i := 0
		for i < v.NumField() && v.Type().Field(i).Tag.Get("yaml") != p.key.Value {
			i++
		}
		if i == v.NumField() || p.key.Value == "" {
			d.unknown(p.key, v.Type())
			continue
		}
		d.member(p, v.Field(i), path)
	}
}

func (d *decoder) member(p pair, v reflect.Value, path string) {
	path = under(path, p.key.Value)
	d.lines[path] = p.key.Line
	d.read(p.value, v, path)
}

func under(path, key string) string { return strings.TrimPrefix(path+"."+key, ".") }

type pair struct{ key, value *yaml.Node }

// pairs returns the keys of a mapping: first its own keys, and then the merged keys (<<). A
// repeated own key is a fault. A merged key applies only if no earlier key has its name.
// within contains the mappings that are being merged.
func (d *decoder) pairs(n *yaml.Node, path string, within ...*yaml.Node) (all []pair) {
	seen, merged := map[string]int{}, []*yaml.Node(nil)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case key.Kind != yaml.ScalarNode:
			d.faultf(key, "a key is a word, such as accounts")
		case seen[key.Value] > 0:
			d.faultf(key, "%s is in line %d too: keep one", under(path, key.Value), seen[key.Value])
		case key.ShortTag() != "!!merge":
			all = append(all, pair{key, value})
		case target(value).Kind == yaml.SequenceNode:
			merged = target(value).Content
		default:
			merged = []*yaml.Node{value}
		}
		seen[key.Value] = key.Line
	}
	for _, one := range merged {
		one = target(one)
		if one.Kind != yaml.MappingNode || slices.Contains(within, one) || one == n {
			d.faultf(n, "%s must name other mappings, such as *base", under(path, "<<"))
			continue
		}
		if !d.count(one) {
			break
		}
		for _, p := range d.pairs(one, path, append(within, n)...) {
			if seen[p.key.Value] == 0 {
				seen[p.key.Value] = p.key.Line
				all = append(all, p)
			}
		}
	}
	return all
}

// scalar decodes a single value that is not a whole number. Its errors quote only durations,
// because any other value may be a misplaced secret.
func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path string) {
	tag := n.ShortTag()
	switch t := v.Type(); {
	case t == reflect.TypeFor[time.Duration]() && n.Kind == yaml.ScalarNode && tag != "!!bool":
		d.duration(n, v, path)
		return
	case t.Kind() == reflect.String && (tag == "!!str" || tag == "!!timestamp"):
		v.SetString(n.Value)
		return
	case t.Kind() == reflect.Bool && tag == "!!bool", t.Kind() == reflect.Float64 && (tag == "!!int" || tag == "!!float"):
		if n.Decode(v.Addr().Interface()) == nil {
			return
		}
	case t.Kind() == reflect.Slice:
		d.faultf(n, "%s must be a list, such as [a, b]", path)
		return
	case t.Kind() == reflect.Struct || t.Kind() == reflect.Map:
		d.faultf(n, "%s must hold keys of its own, and is a single value or a list", cmp.Or(path, "the file"))
		return
	}
	d.faultf(n, "%s must be %s, and is %s", path, kindOf(v.Type()), cmp.Or(tagKinds[tag], "something else"))
}

// duration decodes a duration. It refuses a number without a unit, which Go would read as
// nanoseconds.
func (d *decoder) duration(n *yaml.Node, v reflect.Value, path string) {
	span, err := ParseSpan(n.Value)
	switch {
	case err == nil:
		v.SetInt(int64(span))
	case n.ShortTag() != "!!str":
		d.faultf(n, "%s: %s has no unit: write it as %sh or %ss", path, n.Value, n.Value, n.Value)
	default:
		d.faultf(n, "%s: %q is not a time: write it as 3d, 72h, 15m or 30s", path, n.Value)
	}
}

// ParseSpan is like time.ParseDuration, but also reads days of 24 hours, as in 3d or 1d12h.
func ParseSpan(text string) (time.Duration, error) {
	days, rest, inDays := strings.Cut(text, "d")
	if !inDays {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseUint(days, 10, 16)
	if err != nil || rest == "" {
		return time.Duration(n) * 24 * time.Hour, err
	}
	further, err := time.ParseDuration(rest)
	if further < 0 {
		err = errors.New("a negative part of a time")
	}
	return time.Duration(n)*24*time.Hour + further, err
}

// plainInteger matches a whole number in the configuration. YAML reads 0200000 as octal, 1_000
// as 1000, and even 1e4 and 700.00 as numbers. An amount that a person may read differently from
// the parser must not decide what is spent.
var plainInteger = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

func isInteger(t reflect.Type) bool {
	return (t.Kind() == reflect.Int || t.Kind() == reflect.Int64) && t != reflect.TypeFor[time.Duration]()
}

func (d *decoder) integer(n *yaml.Node, v reflect.Value, path string) {
	const write = "write plain digits, such as 700 (cents: 700 are 7.00)"
	number, err := strconv.ParseInt(n.Value, 10, v.Type().Bits())
	switch {
	case n.Kind != yaml.ScalarNode:
		d.faultf(n, "%s: a whole number is expected: %s", path, write)
	case n.ShortTag() == "!!null":
		d.faultf(n, "%s: it is empty: %s, or leave the key out", path, write)
	case n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0:
		d.faultf(n, "%s: %q is a text: write it without quotes", path, n.Value)
	case !plainInteger.MatchString(n.Value) || err != nil:
		d.faultf(n, "%s: %s is not a whole number in plain digits: %s", path, n.Value, write)
	default:
		v.SetInt(number)
	}
}

// unknown adds a fault for a key that does not exist, because an ignored limit could cost money.
// It suggests the nearest known key.
func (d *decoder) unknown(key *yaml.Node, place reflect.Type) {
	d.unknownKeys++
	var here []string
	near := ""
	for field := range place.Fields() {
		if name := field.Tag.Get("yaml"); name != "" {
			here = append(here, name)
			if len(key.Value) > 1 && strings.HasPrefix(name, key.Value) {
				near = name
			}
		}
	}
	if near = cmp.Or(near, Nearest(key.Value, here, min(4, len(key.Value)/2+1))); near != "" {
		d.faultf(key, "%q is no key of the configuration, did you mean %q?", key.Value, near)
		return
	}
	is := "is no key of the configuration"
	for _, k := range keys(sampleConfig()) {
		if slices.Contains(strings.Split(strings.ReplaceAll(k.path, "[0]", ""), "."), key.Value) && key.Value != anyName {
			is = "is a key of the configuration, and not one of this place in it"
		}
	}
	d.faultf(key, "%q %s: the keys here are %s", key.Value, is, strings.Join(here, ", "))
}

// Nearest returns the first known word with the smallest edit distance to word. The distance
// must be less than within. Otherwise, Nearest returns "".
func Nearest(word string, known []string, within int) (nearest string) {
	for _, k := range known {
		if d := levenshtein.ComputeDistance(word, k); d < within {
			nearest, within = k, d
		}
	}
	return nearest
}

var tagKinds = map[string]string{
	"!!str": "a text", "!!timestamp": "a text", "!!int": "a whole number", "!!float": "a number", "!!bool": "true or false", "!!map": "a mapping of keys", "!!seq": "a list",
}

func kindOf(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "a time, such as 72h"
	case isInteger(t):
		return "a whole number"
	case t.Kind() == reflect.Pointer:
		return kindOf(t.Elem())
	case t.Kind() == reflect.Float64:
		return "a number"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Slice:
		return "a list"
	case t.Kind() == reflect.String:
		return "a text"
	}
	return "keys of its own"
}
