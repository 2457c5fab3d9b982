// Strict decoding of the YAML file into the fields of Config, whose tags declare the keys
// of the configuration. The effective configuration by key, with the source of each value.

package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agnivade/levenshtein"
	"go.yaml.in/yaml/v3"

	"perennial/cmd/perennial/internal/webhook"
	"perennial/queue"
	"perennial/schedules/plans"
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
	values int // number of values read so far
}

// fault is one error in the file. line is 0 if neither the key nor a key that contains it is
// in the file.
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

// err returns one error with the faults in the order of the file, or nil.
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

// lineOf returns the line number of the key whose path begins the text. If the file lacks
// this key, it returns the line of the nearest enclosing key, or 0.
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

// plainInteger matches a whole number in the configuration. YAML reads 0200000 as octal, 1e4
// and 700.00 as numbers and 1_000 as 1000. An amount that a person may read differently from
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

// unknown adds a fault for an unknown key, because an ignored limit could cost money. It
// suggests the nearest known key.
func (d *decoder) unknown(key *yaml.Node, place reflect.Type) {
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

// tagKinds describes YAML tags as kinds of values.
var tagKinds = map[string]string{
	"!!str": "a text", "!!timestamp": "a text", "!!int": "a whole number", "!!float": "a number", "!!bool": "true or false", "!!map": "a mapping of keys", "!!seq": "a list",
}

// kindOf describes the kind of value that a key accepts.
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

// Error means that the configuration, or a file that it refers to, cannot be used. Its text
// says what is wrong, where, and what to do.
type Error struct{ err error }

func (e *Error) Error() string { return e.err.Error() }

func (e *Error) Unwrap() error { return e.err }

func invalid(format string, args ...any) error { return &Error{fmt.Errorf(format, args...)} }

// NotConfiguredError means that a requested account is not configured.
type NotConfiguredError struct {
	account string
	have    []string
}

func (e *NotConfiguredError) Error() string {
	return fmt.Sprintf("account %q is not in the configuration, which has %s", e.account, strings.Join(e.have, ", "))
}

// key is a configuration key with its value. If it has no tag, it is a structure that
// contains keys.
type key struct {
	path  string
	tag   reflect.StructTag
	value reflect.Value
}

// keys returns a configuration's keys in the order of their declaration, and accounts by name.
// A structure comes after its keys.
func keys(c *Config) []key { return appendKeys(nil, key{value: reflect.ValueOf(c).Elem()}) }

func appendKeys(all []key, k key) []key {
	v := k.value
	switch {
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if tag := v.Type().Field(i).Tag; tag.Get("yaml") != "" {
				all = appendKeys(all, key{under(k.path, tag.Get("yaml")), tag, v.Field(i)})
			}
		}
		return append(all, key{path: k.path, value: v})
	case v.Kind() == reflect.Map && v.Type().Elem().Kind() == reflect.Pointer:
		names := v.MapKeys()
		slices.SortFunc(names, func(a, b reflect.Value) int { return cmp.Compare(a.String(), b.String()) })
		for _, name := range names {
			if one := v.MapIndex(name); !one.IsNil() {
				all = appendKeys(all, key{path: under(k.path, name.String()), value: one.Elem()})
			}
		}
		return all
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		for i := range v.Len() {
			all = appendKeys(all, key{path: k.path + "[" + strconv.Itoa(i) + "]", value: v.Index(i)})
		}
		return all
	}
	return append(all, k)
}

// Defaults sets each key that has the zero value to its default.
func (c *Config) Defaults() {
	for _, k := range keys(c) {
		if text := k.tag.Get("default"); text != "" && k.value.IsZero() {
			_ = yaml.Unmarshal([]byte(text), k.value.Addr().Interface()) // never fails, because a test parses each default
		}
	}
}

// outOfBounds returns an error for each number outside its key's bounds.
func (c *Config) outOfBounds() (all []error) {
	for _, k := range keys(c) {
		if takes := bounds(k.tag); takes != "" {
			number, _ := strconv.ParseFloat(fmt.Sprint(reflect.Indirect(k.value)), 64)
			least, _ := strconv.ParseFloat(k.tag.Get("min"), 64)
			most, err := strconv.ParseFloat(k.tag.Get("max"), 64)
			if !(number >= least && (err != nil || number <= most)) {
				all = append(all, fmt.Errorf("%s must be %s, and is %v", k.path, takes, reflect.Indirect(k.value)))
			}
		}
	}
	return all
}

func bounds(tag reflect.StructTag) string {
	switch least, most := tag.Get("min"), tag.Get("max"); {
	case most != "":
		return least + " to " + most
	case least != "":
		return "at least " + least
	}
	return ""
}

// anyName is the account name in the result of sampleConfig.
const anyName = "NAME"

// sampleConfig returns a configuration with one entry in each list whose entries have keys.
func sampleConfig() *Config {
	c := &Config{Accounts: map[string]*Account{anyName: {}}, Schedules: make([]plans.Schedule, 1), Webhooks: make([]Webhook, 1)}
	c.NATS.Users = []User{{Roles: make([]Role, 1)}}
	c.HTTP.Identity.People = make([]Person, 1)
	return c
}

// Setting is one key with its effective value. It never contains a secret.
type Setting struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
	From  string `json:"from"` // "line N", "default", or the source of a secret
}

// Settings returns all keys in the order of the reference page, and accounts by name.
func (c *Config) Settings() []Setting {
	var all []Setting
	for _, k := range keys(c) {
		if k.tag == "" {
			all = append(all, c.secretsOf(k.value.Addr().Interface(), k.path)...)
			continue
		}
		value := shown(k.path, reflect.Indirect(k.value).Interface())
		if k.value.IsZero() {
			value = orAbsent(value, k.tag.Get("absent"))
		}
		all = append(all, Setting{Key: k.path, Value: value, From: c.from(k.path)})
	}
	return all
}

// orAbsent parses absent, the meaning of an absent key, as a number or a list. It returns
// value if absent is neither.
func orAbsent(value any, absent string) any {
	if n, err := strconv.Atoi(absent); err == nil {
		return n
	}
	if strings.HasPrefix(absent, "[") {
		return strings.Split(strings.Trim(absent, "[]"), ", ")
	}
	return value
}

// from returns the source of a key's value.
func (c *Config) from(path string) string {
	if line, ok := c.lines[path]; ok {
		return "line " + strconv.Itoa(line)
	}
	if c.Embedded {
		return "embedded default"
	}
	return "default"
}

// shown formats a value as the file does. It removes the user info from NATS addresses,
// because it may contain a password. It removes everything after the host from webhook
// addresses, because it may contain a token. The provider's address never contains a secret.
func shown(path string, value any) any {
	switch v := value.(type) {
	case time.Duration:
		return v.String()
	case []time.Duration:
		texts := make([]string, len(v))
		for i, d := range v {
			texts[i] = d.String()
		}
		return texts
	case string:
		if path == "nats.url" && v != "" {
			return queue.Redacted(v)
		}
		if strings.HasPrefix(path, "webhooks[") && strings.HasSuffix(path, "].url") {
			return webhook.Host(v) + "/…"
		}
	}
	return value
}

// secretsOf returns a setting for the secret of an account or a webhook, which is not in the
// file.
func (c *Config) secretsOf(v any, path string) []Setting {
	switch v := v.(type) {
	case *Account:
		name := path[len("accounts."):]
		_, err := c.SecretOf(name)
		return []Setting{secretSetting(path, SecretVariable(name), v.Secret != "" || c.Embedded, err)}
	case *Webhook:
		_, err := c.WebhookSecrets(*v)
		return []Setting{secretSetting(path, WebhookVariable(v.Name), false, err)}
	}
	return nil
}

// secretSetting returns the source of a secret, never its value. err is the reason if the
// secret cannot be read.
func secretSetting(path, variable string, embedded bool, err error) Setting {
	s := Setting{Key: path + " (secret)", Value: "(not shown)"}
	switch {
	case embedded:
		s.From = "embedded default"
	case err != nil:
		s.Value, s.From = "(none)", fmt.Sprintf("secret_file, or %s in the environment", variable)
	case os.Getenv(variable) != "":
		s.From = variable + " in the environment"
	case os.Getenv("CREDENTIALS_DIRECTORY") != "":
		s.From = "CREDENTIALS_DIRECTORY, or secret_file"
	default:
		s.From = "secret_file"
	}
	return s
}
