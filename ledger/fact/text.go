package fact

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// MaxMarks is the largest allowed number of consecutive combining marks. No script needs
// more, and many marks on one letter would cover the lines around it.
const MaxMarks = 4

// Unprintable returns why a text cannot be an id, a label, a name or a reason. It returns "" if
// the text can be one. The result continues a sentence that begins with the text. Different texts
// must look different, so invisible characters are not allowed.
//
// The rule applies to new input. Texts that were accepted earlier are read unchanged.
func Unprintable(text string) string {
	marks := 0
	for _, r := range text {
		if ' ' <= r && r <= '~' { // most ids are ASCII, and this check takes a sixth of the time of the tables below
			marks = 0
			continue
		}
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar || unicode.In(r, Invisible...) {
			return fmt.Sprintf("holds a character that cannot be printed (%U)", r)
		}
		switch {
		case unicode.In(r, unicode.Mn, unicode.Me):
			marks++
		case !unicode.Is(unicode.Mc, r): // a spacing mark belongs to the same letter
			marks = 0
		}
		if marks > MaxMarks {
			return fmt.Sprintf("holds more than %d combining marks in a row", MaxMarks)
		}
	}
	return ""
}

// Invisible has characters that Unicode counts as letters, marks or symbols but that show
// nothing. Unprintable also refuses the replacement character, because different invalid
// texts decode to it.
var Invisible = []*unicode.RangeTable{
	unicode.Other_Default_Ignorable_Code_Point, // such as Hangul fillers and the grapheme joiner
	unicode.Variation_Selector,
	blanks,
}

// blanks has blank characters that are in no Unicode table of Invisible.
var blanks = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x2800, Hi: 0x2800, Stride: 1}, // a Braille pattern without dots
		{Lo: 0x2d7f, Hi: 0x2d7f, Stride: 1}, // the Tifinagh consonant joiner
	},
	R32: []unicode.Range32{
		{Lo: 0x1107f, Hi: 0x1107f, Stride: 1}, // the Brahmi number joiner
		{Lo: 0x13441, Hi: 0x13442, Stride: 1}, // Egyptian blanks
		{Lo: 0x16fe4, Hi: 0x16fe4, Stride: 1}, // the Khitan filler
		{Lo: 0x1d159, Hi: 0x1d159, Stride: 1}, // a note without a head
	},
}

// Printable replaces each character that unicode.IsPrint does not accept with a space, so that
// the text ends no line and moves no terminal's cursor. It keeps the characters in but, and those
// of Invisible.
func Printable(text, but string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || strings.ContainsRune(but, r) {
			return r
		}
		return ' '
	}, text)
}

// maxText limits, in bytes, a provider's or caller's text in a fact.
const maxText = 500

// Bounded returns a text in the form in which a fact stores it: a text of more than maxText
// bytes is cut there and gets an ellipsis.
func Bounded(text string) string {
	if len(text) > maxText {
		return strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}

// Limits of a command's labels. They are needed because every fact of the command contains
// the labels.
const (
	MaxLabels      = 32
	MaxLabelBytes  = 256     // of a key, and of a value
	MaxLabelsBytes = 2 << 10 // of all keys and values of a command together
)

// CheckLabel returns what is wrong with one label. It returns nil if the label is valid.
func CheckLabel(key, value string) error {
	if key == "" || len(key) > MaxLabelBytes || len(value) > MaxLabelBytes {
		return fmt.Errorf("label %.40q: keys have 1 to %d bytes, values at most %d", key, MaxLabelBytes, MaxLabelBytes)
	}
	for _, text := range []string{key, value} {
		if why := Unprintable(text); why != "" {
			return fmt.Errorf("label %.40q %s", key, why)
		}
	}
	return nil
}

// ClearLabel returns an error if a label, written as key=value, could be mistaken for
// another label. Facts of older versions may have such labels; new commands may not.
func ClearLabel(key, value string) error {
	switch {
	case strings.Contains(key, "="):
		return fmt.Errorf("label %.40q has '=' in its key, and would read as another one", key)
	case strings.TrimSpace(key) != key || strings.TrimSpace(value) != value:
		return fmt.Errorf("label %.40q begins or ends with a blank, in its key or its value, and would look like another one", key)
	}
	return nil
}

// CheckLabels returns an error if a label is invalid, or if the number or the total size of the
// labels is too large.
func CheckLabels(labels map[string]string) error {
	if len(labels) > MaxLabels {
		return fmt.Errorf("labels has %d entries of at most %d", len(labels), MaxLabels)
	}
	size := 0
	for k, v := range labels {
		if err := CheckLabel(k, v); err != nil {
			return err
		}
		size += len(k) + len(v)
	}
	if size > MaxLabelsBytes {
		return fmt.Errorf("labels have %d bytes together, of at most %d: every fact of the command repeats them", size, MaxLabelsBytes)
	}
	return nil
}

type userKey struct{}

// WithUser returns a context with the NATS user who sent the request, as the server
// identified it. The facts of the request contain the user (see UserOf). user is "" if the
// server did not identify one.
func WithUser(ctx context.Context, user string) context.Context {
	return context.WithValue(ctx, userKey{}, user)
}

// UserOf returns the NATS user that WithUser stored in the context. It returns "" if there is
// none.
func UserOf(ctx context.Context) string {
	user, _ := ctx.Value(userKey{}).(string)
	return user
}

// Signed returns the name of the operator who made a change. It is the name in the request. If
// the NATS user has a different name, that name follows.
func Signed(by, user string) string {
	if user == "" || user == by {
		return by
	}
	return by + userMark + user + ")"
}

// Said returns the reason for the operation's state. by is the name of the operator who cancelled
// the operation.
func (f CommandCancelled) Said(by string) string { return "cancelled by " + by + ": " + f.Reason }

// Said returns the reason for the operation's state. by is the name of the operator who
// answered the review.
func (f OperationResolved) Said(by string) string { return f.Outcome + " by " + by + ": " + f.Reason }

// userMark precedes the NATS user in the result of Signed.
const userMark = " (NATS user "

// ClaimsUser reports whether a name in a request looks as if Signed had added a NATS user.
func ClaimsUser(by string) bool { return strings.Contains(by, strings.TrimSpace(userMark)) }

// Trace is the W3C trace context of a command's message.
type Trace struct {
	Traceparent string `json:"traceparent,omitempty" doc:"The W3C trace context of the command's message."`
	Tracestate  string `json:"tracestate,omitempty" doc:"The vendor-specific part of the trace context."`
}

var traceparent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// Ids that a trace context must not have (W3C Trace Context, sections 3.2.2.3 and 3.2.2.4).
const (
	noTrace = "-00000000000000000000000000000000-"
	noSpan  = "-0000000000000000-"
)

// maxTracestate limits a tracestate, in bytes (W3C Trace Context, section 3.3.1.5).
const maxTracestate = 512

// TraceOf returns the trace context in two headers. It returns the zero Trace if parent is not
// valid. If state is too long or Unprintable refuses it, the result has no Tracestate.
func TraceOf(parent, state string) (t Trace) {
	if !traceparent.MatchString(parent) || strings.HasPrefix(parent, "ff") || strings.Contains(parent, noTrace) || strings.Contains(parent, noSpan) {
		return t
	}
	if t.Traceparent = parent; len(state) <= maxTracestate && Unprintable(state) == "" {
		t.Tracestate = state
	}
	return t
}
