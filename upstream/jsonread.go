// A decoder reads only the members that it asks for by name, so that credentials stay unread. A
// duplicate key is an error, and so is an integer with a fraction or an exponent.
// docs/decisions/0032 explains why the package does not decode replies into tagged structs.

package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/shopspring/decimal"
)

type value = jsontext.Value

var errTwice = errors.New("a key appears twice") // without the key's name, which may be a secret in a broken reply

func isText(v value) bool {
	return v.Kind() == jsontext.KindString || v.Kind() == jsontext.KindNumber
}

// lenient allows duplicate keys, because parse detects them itself. It also allows invalid
// UTF-8, so that a fault in one list entry does not affect the others.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// as converts a value to the Go type T. ok is false if the value is null or of another type.
func as[T any](v value) (out T, ok bool) {
	if len(v) == 0 || v.Kind() == jsontext.KindNull || json.Unmarshal(v, &out, lenient) != nil {
		return *new(T), false
	}
	return out, true
}

type object struct {
	name    string
	members map[string]value
	err     error
}

// parseObject parses a complete JSON text. The members share the memory of raw.
func parseObject(name string, raw []byte) (*object, error) {
	o := &object{name: name, members: make(map[string]value, 16)}
	return o, named(name, o.parse(raw))
}

var (
	errNoJSON   = errors.New("not JSON")
	errNoObject = errors.New("not a JSON object")
)

func (o *object) parse(raw []byte) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw), lenient)
	if d.PeekKind() != jsontext.KindBeginObject {
		if _, err := d.ReadValue(); err != nil {
			return errNoJSON
		}
		return atEnd(d, errNoObject)
	}
	if _, err := d.ReadToken(); err != nil {
		return errNoJSON
	}
	for d.PeekKind() != jsontext.KindEndObject {
		key, err := d.ReadToken()
		if err != nil {
			return errNoJSON
		}
		name := key.String()
		if _, twice := o.members[name]; twice {
			return errTwice
		}
		v, err := d.ReadValue()
		if err != nil {
			return errNoJSON
		}
		end := d.InputOffset()
		o.members[name] = raw[end-int64(len(v)) : end : end]
	}
	if _, err := d.ReadToken(); err != nil {
		return errNoJSON
	}
	return atEnd(d, nil)
}

func atEnd(d *jsontext.Decoder, err error) error {
	if _, more := d.ReadToken(); !errors.Is(more, io.EOF) {
		return errNoJSON
	}
	return err
}

func named(name string, err error) error {
	if name == "" || err == nil {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}

func (o *object) raw(key string) value {
	if v := o.members[key]; v.Kind() != jsontext.KindNull {
		return v
	}
	return nil
}

type fieldError struct{ field, why string }

func (e *fieldError) Error() string { return e.field + " is " + e.why }

// fail records an error about a member, unless the object already has an error. The text
// contains the member's name, but not its value.
func (o *object) fail(key, why string) {
	if o.err == nil {
		o.err = named(o.name, &fieldError{key, why})
	}
}

func (o *object) missing(keys ...string) (out []string) {
	for _, key := range keys {
		if o.raw(key) == nil {
			out = append(out, key)
		}
	}
	return out
}

func (o *object) need(keys ...string) {
	for _, key := range o.missing(keys...) {
		o.fail(key, "missing")
	}
}

// read decodes a member as T. It returns the zero value if the member is absent or null. It
// also records an error if the member is invalid.
func read[T any](o *object, key, kind string) (out T) {
	v := o.raw(key)
	if v == nil {
		return out
	}
	out, ok := as[T](v)
	if !ok {
		o.fail(key, "not "+kind)
	}
	return out
}

func (o *object) str(key string) string {
	if text, plain := plainText(o.raw(key)); plain {
		return text
	}
	return read[string](o, key, "a string")
}

// plainText returns the text of a JSON string that has neither escapes nor non-ASCII
// characters. plain is false for any other value. Nearly all strings are plain, and a copy
// is faster than decoding.
func plainText(v value) (text string, plain bool) {
	if v.Kind() != jsontext.KindString || slices.ContainsFunc(v, func(c byte) bool { return c == '\\' || c >= utf8.RuneSelf }) {
		return "", false
	}
	return string(v[1 : len(v)-1]), true
}

// integer decodes a 64-bit integer. It rejects a fraction or an exponent, even 1.0.
func (o *object) integer(key string) int64 { return read[int64](o, key, "a 64-bit integer") }

func (o *object) optionalInt(key string) *int64 { return read[*int64](o, key, "a 64-bit integer") }

func (o *object) boolean(key string) bool { return read[bool](o, key, "a boolean") }

func (o *object) array(key string) []value { return read[[]value](o, key, "an array") }

// arrayOf decodes an array of T and rejects null elements.
func arrayOf[T any](o *object, key, plural string) (out []T) {
	all := o.array(key)
	if all != nil {
		out = make([]T, 0, len(all))
	}
	for _, v := range all {
		one, ok := as[T](v)
		if !ok {
			o.fail(key, "not an array of "+plural)
			return nil
		}
		out = append(out, one)
	}
	return out
}

func (o *object) id(key string) string {
	id := o.str(key)
	if id == "" {
		o.fail(key, "missing")
	}
	return id
}

// text decodes a string or a number, because the API document does not give the type.
func (o *object) text(key string) string {
	if v := o.raw(key); v.Kind() == jsontext.KindNumber {
		return string(v)
	}
	return o.str(key)
}

// NotText replaces a descriptive member that is neither a string nor a number, such as a list.
const NotText = "(not text)"

// described decodes a descriptive member as text. It returns NotText for a value of another
// type, so that the rest of the object stays readable.
func (o *object) described(key string) string {
	if v := o.raw(key); v != nil && !isText(v) {
		return NotText
	}
	return o.text(key)
}

// sanitized decodes a descriptive member and returns short text that is safe to store and show.
func (o *object) sanitized(key string) string { return sanitizeName(o.described(key), traceLimit) }

// within passes an object member to the function read, unless the member is absent or null.
func (o *object) within(key string, read func(*object)) {
	v := o.raw(key)
	if v == nil {
		return
	}
	inner, err := parseObject(key, v)
	if err == nil {
		read(inner)
		err = inner.err
	}
	if o.err == nil {
		o.err = named(o.name, err)
	}
}

// optionalTime decodes an ISO 8601 time with a zone and converts the time to UTC. It returns
// nil if the member is absent, null or empty. It rejects a time without a zone.
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

func (o *object) lenientTime(key string) *time.Time {
	if t, ok := parseTime(o.described(key)); ok {
		return &t
	}
	return nil
}

func (o *object) instant(key string) time.Time {
	at, _ := parseTime(o.described(key))
	return at
}

func parseTime(s string) (time.Time, bool) {
	s = strings.ToUpper(s) // RFC 3339 and ISO 8601 permit "t" and "z"
	if t, ok := parseClock(s); ok {
		return clampTime(t), true
	}
	if m := endOfDay.FindStringSubmatch(s); m != nil {
		if t, ok := parseClock(m[1] + "00" + m[2]); ok {
			return clampTime(t.AddDate(0, 0, 1)), true
		}
	}
	if m := leapSecond.FindStringSubmatch(s); m != nil {
		t, ok := parseClock(m[1] + "59" + m[2])
		if t = t.Add(time.Second); ok && t.Truncate(time.Second).Equal(t.Truncate(24*time.Hour)) {
			return clampTime(t), true
		}
	}
	return time.Time{}, false
}

// ISO 8601 permits 24:00:00 for the end of a day. It permits second 60 for a leap second, which
// ends a day in UTC (trap 65). time.Parse rejects both.
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

// The first and the last instant with a four-digit year. In UTC, a valid time with an offset
// may be up to a day outside this range. clampTime replaces such a time with the nearer
// limit.
var firstInstant, lastInstant = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)

func clampTime(t time.Time) time.Time {
	switch {
	case t.Before(firstInstant):
		return firstInstant
	case t.After(lastInstant):
		return lastInstant
	}
	return t
}

func bounded(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

const maxDecimal = 40

// AmountAgrees reports whether a decimal string in the main unit equals a number of cents (API:
// General conventions). It returns true for an empty string and false for an invalid amount.
func AmountAgrees(amount string, cents int64) bool {
	if amount == "" {
		return true
	}
	if len(amount) > maxDecimal || strings.ContainsAny(amount, "eE") { // a short exponent can require a very large computation
		return false
	}
	d, err := decimal.NewFromString(amount)
	return err == nil && d.Equal(decimal.New(cents, -2))
}

func (o *object) decimal(key string) string {
	if !isText(o.raw(key)) {
		return ""
	}
	return bounded(o.text(key), maxDecimal+1)
}

// Unusable describes a list entry that cannot be decoded.
type Unusable struct {
	ID       string // opaque; empty if the id is unreadable, or if Field is empty
	Position int    // the entry's position in its list or page, counted from 1
	// Field is the name of the unreadable member. It is empty if the entry is not an object or
	// has a duplicate key.
	Field string
	Why   string // the reason, with the field's name but without its value
}

// UnusableError means that a list is complete except for entries that could not be decoded.
type UnusableError struct {
	First Unusable
	Count int
}

// Error gives the number of unreadable entries and describes the first.
func (e *UnusableError) Error() string {
	what := fmt.Sprintf("entry %d", e.First.Position)
	if e.First.ID != "" {
		what = sanitizeName(e.First.ID, traceLimit)
	}
	return fmt.Sprintf("%d entries of the list cannot be read; the others can: %s: %s", e.Count, what, e.First.Why)
}

func (e *UnusableError) add(page []Unusable) {
	if e.Count == 0 && len(page) > 0 {
		e.First = page[0]
	}
	e.Count += len(page)
}

func decodeEach[T any](o *object, key, id string, decode func(*object) T) (items []T, unusable []Unusable) {
	raws := o.array(key)
	items = make([]T, 0, len(raws))
	for at, raw := range raws {
		entry, err := parseObject("", raw)
		if err != nil {
			unusable = append(unusable, Unusable{Position: at + 1, Why: err.Error()})
			continue
		}
		item := decode(entry)
		if entry.err == nil {
			items = append(items, item)
			continue
		}
		bad := Unusable{Position: at + 1, Why: entry.err.Error()}
		bad.ID, _ = as[string](entry.raw(id))
		if failed, ok := errors.AsType[*fieldError](entry.err); ok {
			bad.Field = failed.field
		}
		unusable = append(unusable, bad)
	}
	return items, unusable
}
