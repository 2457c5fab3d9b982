package fact

import (
	"strings"
	"testing"
	"unicode"
)

func TestTwoTextsThatDifferAreSeenToDiffer(t *testing.T) {
	for _, r := range []rune{
		'\n', '\x1b', 0x7f, 0xa0, 0xad, 0x34f, 0x61c, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x180b, 0x180e, 0x200b, 0x200d, 0x202e, 0x2028, 0x2060, 0x2065, 0x2800, 0x2d7f,
		0x3000, 0x3164, 0xfe00, 0xfe0f, 0xfeff, 0xffa0, 0xfff0, 0xfffd, 0x1107f, 0x13441, 0x16fe4, 0x1d159, 0xe0001, 0xe0020, 0xe0100, 0xe0fff, 0x10ffff,
	} {
		for _, text := range []string{string(r), "renew" + string(r), "re" + string(r) + "new"} {
			if why := Unprintable(text); !strings.Contains(why, "cannot be printed (U+") {
				t.Errorf("%+q passes: %q", text, why)
			}
		}
	}
	if Unprintable("a\xff") == "" {
		t.Error("broken UTF-8 passes")
	}
}

func TestNoCharacterThatUnicodeIgnoresPasses(t *testing.T) {
	for _, table := range []*unicode.RangeTable{unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector, unicode.Cf, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Co} {
		for _, x := range table.R16 {
			for r := rune(x.Lo); r <= rune(x.Hi); r += rune(x.Stride) {
				if Unprintable(string(r)) == "" {
					t.Errorf("%U passes", r)
				}
			}
		}
		for _, x := range table.R32 {
			if Unprintable(string(rune(x.Lo))) == "" || Unprintable(string(rune(x.Hi))) == "" {
				t.Errorf("one of %U to %U passes", x.Lo, x.Hi)
			}
		}
	}
}

func TestLettersOfEveryScriptPass(t *testing.T) {
	for _, text := range []string{
		"", "restock-2026-11-21", "a b", "Größe", "re\u0301sume\u0301", "Việt", "नमस्ते दुनिया", "ကြွေး မြွှေး", "ที่นี่", "בְּרֵאשִׁ֖ית", "محمّد", "日本語", "한국어", "Ṩ̛̣", "😀", "=+@\"'<>&",
		"a" + strings.Repeat("\u0301", MaxMarks) + "b" + strings.Repeat("\u0301", MaxMarks),
	} {
		if why := Unprintable(text); why != "" {
			t.Errorf("%q %s", text, why)
		}
	}
}

func TestMarksPileUpNoHigherThanFour(t *testing.T) {
	for _, pile := range []string{strings.Repeat("\u0301", MaxMarks+1), strings.Repeat("\u0301\u20dd", 25), "\u0301\u0301\u0301\u0903\u0301\u0301"} {
		if why := Unprintable("a" + pile); !strings.Contains(why, "combining marks") {
			t.Errorf("%+q: %q", pile, why)
		}
	}
	for _, x := range [][2]string{{"a", "\ufe0f"}, {"\u3164", "a"}} {
		if CheckLabel(x[0], x[1]) == nil {
			t.Errorf("label %+q passes", x)
		}
	}
}
