// Reads JSON by allow-list. A caller asks an object for known members, each with the
// rule of its field; everything else, including credentials, is never decoded. A
// duplicate key is an error, and integers must be integers. docs/decisions/0032 says why
// replies are not structs with tags.

package upstream

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/shopspring/decimal"
)

// value is one JSON value as it was sent.
type value []byte

var errTwice = errors.New("a key appears twice") // without its name: in a broken reply it may be a secret

// UnmarshalJSONFrom keeps a value, and refuses a second one for the same key.
func (v *value) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if *v != nil {
		return errTwice
	}
	raw, err := d.ReadValue()
	*v = bytes.Clone(raw)
	return err
}

func kindOf(v value) jsontext.Kind { return jsontext.Value(v).Kind() }

func isText(v value) bool {
	return kindOf(v) == jsontext.KindString || kindOf(v) == jsontext.KindNumber
}

// lenient leaves duplicate keys to value, and ignores faults in text that is never read:
// a fault in one list entry does not affect the others.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// as decodes a value of one kind; ok is false for null and any other kind.
func as[T any](v value) (out T, ok bool) {
	if len(v) == 0 || kindOf(v) == jsontext.KindNull || json.Unmarshal(v, &out, lenient) != nil {
		return *new(T), false
	}
	return out, true
}

// object collects the first error of its reads.
type object struct {
	name    string
	members map[string]value
	err     error
}

// parseObject parses a whole JSON text.
func parseObject(name string, raw []byte) (*object, error) {
	o := &object{name: name, members: make(map[string]value, 16)}
	err := json.Unmarshal(raw, &o.members, lenient)
	switch _, broken := errors.AsType[*jsontext.SyntacticError](err); {
	case broken:
		err = errors.New("not JSON")
	case errors.Is(err, errTwice):
		err = errTwice
	case err != nil || o.members == nil:
		err = errors.New("not a JSON object")
	}
	return o, named(name, err)
}

func named(name string, err error) error {
	if name == "" || err == nil {
		return err
	}
	return fmt.Errorf("%s: %w", name, err)
}

// raw returns a member's value, nil if absent or null.
func (o *object) raw(key string) value {
	if v := o.members[key]; kindOf(v) != jsontext.KindNull {
		return v
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

// missing returns the keys that are absent or null.
func (o *object) missing(keys ...string) (out []string) {
	for _, key := range keys {
		if o.raw(key) == nil {
			out = append(out, key)
		}
	}
	return out
}

// need fails if a required member is absent or null.
func (o *object) need(keys ...string) {
	for _, key := range o.missing(keys...) {
		o.fail(key, "missing")
	}
}

// read returns a member of one kind, the zero value if absent, null or invalid.
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

func (o *object) str(key string) string { return read[string](o, key, "a string") }

// integer reads a whole number of at most 64 bits. A fraction or an exponent is
// malformed: 1.0 cents is not an integer count.
func (o *object) integer(key string) int64 { return read[int64](o, key, "a 64-bit integer") }

func (o *object) optionalInt(key string) *int64 { return read[*int64](o, key, "a 64-bit integer") }

func (o *object) boolean(key string) bool { return read[bool](o, key, "a boolean") }

// array returns the elements of a member.
func (o *object) array(key string) []value { return read[[]value](o, key, "an array") }

// arrayOf reads an array of one kind, named by plural; null is invalid in it.
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

// id reads a string that must not be empty.
func (o *object) id(key string) string {
	id := o.str(key)
	if id == "" {
		o.fail(key, "missing")
	}
	return id
}

// text reads a string or a number as text, for fields whose type the document does not
// give.
func (o *object) text(key string) string {
	if v := o.raw(key); kindOf(v) == jsontext.KindNumber {
		return string(v)
	}
	return o.str(key)
}

// NotText stands for a descriptive member that is neither text nor a number, such as a
// list of protocols.
const NotText = "(not text)"

// described reads a descriptive member. A wrong type does not fail the object, and does
// not count as absent.
func (o *object) described(key string) string {
	if v := o.raw(key); v != nil && !isText(v) {
		return NotText
	}
	return o.text(key)
}

// loose is described, bounded and printable.
func (o *object) loose(key string) string { return nameOf(o.described(key), traceLimit) }

// within reads an object member with a function and keeps its error. It does nothing if
// the member is absent or null.
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

// looseTime reads a descriptive time, nil if it cannot be read.
func (o *object) looseTime(key string) *time.Time {
	if t, ok := parseTime(o.described(key)); ok {
		return &t
	}
	return nil
}

// instant reads a descriptive time, zero if it cannot be read.
func (o *object) instant(key string) time.Time {
	at, _ := parseTime(o.described(key))
	return at
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

// Instants with a four-digit year. A time that is valid with its offset may be a day
// outside of them in UTC; it becomes the nearest of these.
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

func bounded(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// maxDecimal is the longest decimal string that is read as an amount, in bytes.
const maxDecimal = 40

// AmountAgrees reports whether a decimal string in the main unit equals an integer count
// of cents (API: General conventions). An absent string agrees with any amount; an
// invalid one with none.
func AmountAgrees(amount string, cents int64) bool {
	if amount == "" {
		return true
	}
	if len(amount) > maxDecimal || strings.ContainsAny(amount, "eE") { // an exponent costs its size to compare
		return false
	}
	d, err := decimal.NewFromString(amount)
	return err == nil && d.Equal(decimal.New(cents, -2))
}

// decimal reads a decimal string or a number as text; "" for anything else, which does
// not contradict the cents.
func (o *object) decimal(key string) string {
	if !isText(o.raw(key)) {
		return ""
	}
	return bounded(o.text(key), maxDecimal+1)
}

// Unusable is a list entry that cannot be read.
type Unusable struct {
	ID       string // opaque; empty if the id itself is unreadable
	Position int    // in its list or page, from 1
	// Field is the unreadable member; empty if the entry is no object, or a member
	// appears twice.
	Field string
	Why   string // names the field and never its value
}

// UnusableError ends a complete list that has unreadable entries.
type UnusableError struct {
	First Unusable
	Count int
}

// Error names the first entry.
func (e *UnusableError) Error() string {
	what := fmt.Sprintf("entry %d", e.First.Position)
	if e.First.ID != "" {
		what = nameOf(e.First.ID, traceLimit)
	}
	return fmt.Sprintf("%d entries of the list cannot be read; the others can: %s: %s", e.Count, what, e.First.Why)
}

func (e *UnusableError) add(page []Unusable) {
	if e.Count == 0 && len(page) > 0 {
		e.First = page[0]
	}
	e.Count += len(page)
}

// decodeEach decodes an array of objects. The member id names an entry.
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
