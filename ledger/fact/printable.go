// This file decides which texts are allowed as ids, labels, names and reasons.

package fact

import (
	"fmt"
	"strings"
	"unicode"
)

// MaxMarks is the largest allowed number of consecutive combining marks. No script needs
// more, and many marks on one letter would cover the lines around it.
const MaxMarks = 4

// Unprintable returns why a text cannot be an id, a label, a name or a reason, or "" if it
// can. The result continues a sentence that begins with the text. Different texts must look
// different, so invisible characters are not allowed.
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

// blanks has blank characters that are not in the other two tables.
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

// Printable returns a text in which spaces replace characters that would end a line or move
// a terminal's cursor, and others that unicode.IsPrint refuses. It keeps the characters that
// but contains, and those of Invisible.
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
