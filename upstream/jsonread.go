// The JSON reader, by allow-list: a caller asks an object for the members it knows,
// and everything else (credentials among it) is never turned into a value. Keys match
// exactly, a key that appears twice is an error, and integers are integers. The input
// was validated whole, which also bounds the nesting.

package upstream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

type member struct{ key, value []byte }

// object collects the first error of what is asked of it.
type object struct {
	name    string
	members []member
	err     error
}

var errNotObject = errors.New("not a JSON object")

// parseDocument validates a whole body and opens its outermost object.
func parseDocument(body []byte) (*object, error) {
	if !jsontext.Value(body).IsValid(lenient) {
		return nil, errors.New("not JSON")
	}
	return parseObject("", bytes.TrimSpace(body))
}

// parseObject opens raw, a valid JSON value without surrounding space.
func parseObject(name string, raw []byte) (*object, error) {
	if len(raw) == 0 || raw[0] != '{' {
		return nil, named(name, errNotObject)
	}
	o := &object{name: name, members: make([]member, 0, 16)}
	d := inside(raw)
	for more(d) {
		o.members = append(o.members, member{plainKey(next(d, raw)), next(d, raw)})
	}
	if d.PeekKind() != jsontext.KindEndObject {
		return nil, named(name, errors.New("not JSON"))
	}
	if o.duplicate() {
		return nil, named(name, errors.New("a key appears twice")) // without its name: in a broken reply it may be a secret
	}
	return o, nil
}

func (o *object) duplicate() bool {
	if len(o.members) > 32 {
		keys := make(map[string]struct{}, len(o.members))
		for _, m := range o.members {
			keys[string(m.key)] = struct{}{}
		}
		return len(keys) < len(o.members)
	}
	for i, m := range o.members {
		if slices.ContainsFunc(o.members[:i], func(earlier member) bool { return bytes.Equal(m.key, earlier.key) }) {
			return true
		}
	}
	return false
}

// plainKey is a key without quotes and escapes.
func plainKey(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1]
	}
	text, _ := jsontext.AppendUnquote(nil, quoted)
	return text
}

// lenient leaves it to parseObject to compare keys, and to unquote to look at text: what is
// never opened does not matter.
var lenient = jsonv2.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// inside reads what a valid JSON object or array holds.
func inside(raw []byte) *jsontext.Decoder {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw), lenient)
	_, _ = d.ReadToken() // its opening brace or bracket
	return d
}

// more reports whether another key or value comes. What cannot be read ends it too: a reply
// must not keep a reader in a loop.
func more(d *jsontext.Decoder) bool {
	kind := d.PeekKind()
	return kind != jsontext.KindEndObject && kind != jsontext.KindEndArray && kind != jsontext.KindInvalid
}

// next is the next value, as a part of raw: what the decoder returns is valid until it reads on.
func next(d *jsontext.Decoder, raw []byte) []byte {
	value, _ := d.ReadValue() // valid by construction
	end := d.InputOffset()
	return raw[end-int64(len(value)) : end]
}

func named(name string, err error) error {
	if name == "" {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// elements splits a JSON array into its raw values.
func elements(raw []byte) (all [][]byte) {
	for d := inside(raw); more(d); {
		all = append(all, next(d, raw))
	}
	return all
}

// raw gives a member's value; nil when it is absent or null.
func (o *object) raw(key string) []byte {
	for _, m := range o.members {
		if string(m.key) == key {
			if m.value[0] == 'n' {
				return nil
			}
			return m.value
		}
	}
	return nil
}

// fieldError is a member that cannot be read.
type fieldError struct{ field, why string }

func (e *fieldError) Error() string { return e.field + " is " + e.why }

// fail keeps the first error; it names the field and never its value.
func (o *object) fail(key, why string) {
	if o.err == nil {
		o.err = named(o.name, &fieldError{key, why})
	}
}

func (o *object) has(key string) bool { return o.raw(key) != nil }

// need is fail for a required member that is absent or null.
func (o *object) need(keys ...string) {
	for _, key := range keys {
		if !o.has(key) {
			o.fail(key, "missing")
		}
	}
}

// missing lists which of the keys are absent or null.
func (o *object) missing(keys ...string) []string {
	var out []string
	for _, key := range keys {
		if !o.has(key) {
			out = append(out, key)
		}
	}
	return out
}

// str reads a string; "" when absent or null.
func (o *object) str(key string) string {
	v := o.raw(key)
	if v == nil {
		return ""
	}
	s, ok := unquote(v)
	if !ok {
		o.fail(key, "not a string")
	}
	return s
}

// text reads a string or a number as its text, for fields whose type the
// document does not give.
func (o *object) text(key string) string {
	v := o.raw(key)
	if v == nil {
		return ""
	}
	if v[0] == '-' || v[0] >= '0' && v[0] <= '9' {
		return string(v)
	}
	return o.str(key)
}

// NotText stands for a descriptive member that is neither text nor a number, such as a
// list of protocols.
const NotText = "(not text)"

// described is text for a member that only describes: one of another type does not make
// the rest unreadable, and is not taken for an absent one.
func (o *object) described(key string) string {
	if v := o.raw(key); len(v) > 0 && (v[0] == '{' || v[0] == '[' || v[0] == 't' || v[0] == 'f') {
		return NotText
	}
	return o.text(key)
}

// loose is described, as it may be kept and shown.
func (o *object) loose(key string) string { return nameOf(o.described(key), traceLimit) }

func unquote(v []byte) (string, bool) {
	if v[0] != '"' {
		return "", false
	}
	if inner := v[1 : len(v)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner), true
	}
	var s string
	return s, json.Unmarshal(v, &s) == nil
}

// optionalInt reads a whole number of at most 64 bits; nil when absent or null.
// A fraction or an exponent is malformed: 1.0 cents is not an integer count.
func (o *object) optionalInt(key string) *int64 {
	v := o.raw(key)
	if v == nil {
		return nil
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		o.fail(key, "not a 64-bit integer")
		return nil
	}
	return &n
}

func (o *object) integer(key string) int64 {
	if n := o.optionalInt(key); n != nil {
		return *n
	}
	return 0
}

func (o *object) optionalBool(key string) *bool {
	v := o.raw(key)
	if v == nil {
		return nil
	}
	b := v[0] == 't'
	if !b && v[0] != 'f' {
		o.fail(key, "not a boolean")
		return nil
	}
	return &b
}

func (o *object) boolean(key string) bool {
	b := o.optionalBool(key)
	return b != nil && *b
}

// optionalTime reads an ISO 8601 time with a zone as UTC; nil when absent, null
// or empty. A time without a zone is malformed.
func (o *object) optionalTime(key string) *time.Time {
	s := o.str(key)
	if s == "" {
		return nil
	}
	t, ok := parseTime(s)
	if !ok {
		o.fail(key, "not an ISO 8601 time with a zone")
		return nil
	}
	return &t
}

// looseTime is a time that only describes; nil when it cannot be read.
func (o *object) looseTime(key string) *time.Time {
	if t, ok := parseTime(o.described(key)); ok {
		return &t
	}
	return nil
}

func parseTime(s string) (time.Time, bool) {
	if t, ok := parseClock(s); ok {
		return writable(t), true
	}
	if m := endOfDay.FindStringSubmatch(s); m != nil {
		t, ok := parseClock(m[1] + "00" + m[2])
		return writable(t.AddDate(0, 0, 1)), ok
	}
	if m := leapSecond.FindStringSubmatch(s); m != nil {
		t, ok := parseClock(m[1] + "59" + m[2])
		if t = t.Add(time.Second); ok && t.Truncate(time.Second).Equal(t.Truncate(24*time.Hour)) {
			return writable(t), true
		}
	}
	return time.Time{}, false
}

// ISO 8601 also writes the end of a day as 24:00:00 and a leap second, which ends a day
// in UTC, as :60 (trap 65). time.Parse refuses both.
var (
	endOfDay   = regexp.MustCompile(`^(.*T)24(:?00(?::?00(?:[.,]0+)?)?(?:Z|[+-].*))$`)
	leapSecond = regexp.MustCompile(`^(.*T\d\d:?\d\d:?)60((?:[.,]\d+)?(?:Z|[+-].*))$`)
)

func parseClock(s string) (time.Time, bool) {
	for _, layout := range [...]string{time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07", "2006-01-02T15:04Z07:00", "20060102T150405Z0700"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// Instants that a year of four digits can write. What is valid with its offset may
// lie a day outside of them in UTC; there it is the nearest of these.
var firstInstant, lastInstant = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)

func writable(t time.Time) time.Time {
	switch {
	case t.Before(firstInstant):
		return firstInstant
	case t.After(lastInstant):
		return lastInstant
	}
	return t
}

// array gives the raw elements of a member; nil when absent or null.
func (o *object) array(key string) [][]byte {
	v := o.raw(key)
	if v == nil {
		return nil
	}
	if v[0] != '[' {
		o.fail(key, "not an array")
		return nil
	}
	return elements(v)
}

func (o *object) strings(key string) []string {
	raws := o.array(key)
	out := make([]string, 0, len(raws))
	for _, r := range raws {
		s, ok := unquote(r)
		if !ok {
			o.fail(key, "not an array of strings")
			return nil
		}
		out = append(out, s)
	}
	return out
}

// child opens an object member; nil when absent, null or not an object.
func (o *object) child(key string) *object {
	v := o.raw(key)
	if v == nil {
		return nil
	}
	c, err := parseObject(key, v)
	if err != nil {
		if o.err == nil {
			o.err = named(o.name, err)
		}
		return nil
	}
	return c
}

// adopt takes over the error of a finished child.
func (o *object) adopt(child *object) {
	if child != nil && o.err == nil && child.err != nil {
		o.err = named(o.name, child.err)
	}
}

func bounded(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

func quote(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
