// Package hostile holds texts that may be taken for something else where they are
// shown or used: subjects, formulas, tags, SQL, log lines, escape sequences.
package hostile

// Texts are for tests alone.
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
	"\uff1d1",
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
}
