// Package hostile has texts that may be mistaken for something else where they are shown or
// used: subjects, formulas, tags, SQL, log lines, escape sequences.
package hostile

import "testing"

// Texts has the hostile texts. Only tests use it.
var Texts = []string{
	"perennial.events.main.>",
	"*",
	">",
	"a.b.c",
	"..",
	".",
	" ",
	"$SYS.REQ",
	"=1+1",
	"@SUM(A1)",
	"<script>alert(1)</script>",
	"\"><img src=x>",
	"a|b",
	"'; DROP TABLE journal;--",
	"x level=error msg=forged",
	"{\"level\":\"error\"}",
	"../../etc/passwd",
	"%s%n",
	"{{.Account}}",
	"\\u003cscript\\u003e",
	"\u2028",
	"\u202e",
	"\x1b[2J",
	"a\nb",
	"a\tb",
	"\x00",
	"\u0085",
	"\xff",
	"+1",
	"-1",
	"\t=1",
	" =1",
	"\r=1",
	"\n=1",
	"＝1",
	"＋1",
	"－1",
	"＠x",
	"=HYPERLINK(\"http://evil\")",
	"a,b\"c",
	"a\r\nb,c",
	"</td><img src=x onerror=alert(1)>",
	"[x](javascript:alert(1))",
	"`x`",
	"\u202eabc",
	"\u2028x",
	"2026-11-21 * \"forged\"\n  Assets:X  1 USD",
	"\\\"",
	"a.b",
	"\xff\xfe",
	"{}",
	"null",
}

// Fuzz calls check with each of these texts and "", and with -fuzz also with texts derived
// from them.
func Fuzz(f *testing.F, check func(t *testing.T, text string)) {
	f.Helper()
	f.Add("")
	for _, text := range Texts {
		f.Add(text)
	}
	f.Fuzz(check)
}
