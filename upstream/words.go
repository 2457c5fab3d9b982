// The text of a server as it may be kept and shown: one line, printable, without
// credentials.

package upstream

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What a server says in words ends up in journals, logs and terminals. It is kept
// for people, as one line of printable text, and not at all where it looks like
// the credentials of a proxy: an address with a user's part, host:port:user:password,
// or a field called password. What sentences say beside a word for credentials is
// withheld by withoutCredentials.
var credentialShapes = regexp.MustCompile(`(?i)[a-z0-9+.-]+://[^\s/@]*@|` +
	`[^\s:@]+:[0-9]{2,5}:[^\s:]+:\S+|` +
	`[^\s:@]+:[^\s@]+@[^\s@]+:[0-9]{2,5}|` +
	`(password|passwd|secret|credentials?)["'\\]*\s*[:=]\s*\S`)

const (
	withheldWords = "(withheld: it looks like credentials)"
	withheldCode  = "unreadable_code" // no code has this meaning, so a person looks at it
)

// wordsOf is a server's text as it may be kept and shown.
func wordsOf(s string, limit int) string {
	return bounded(withoutCredentials(nameOf(s, len(s))), limit)
}

// nameOf is a server's text that is no sentence, as it may be kept and shown.
func nameOf(s string, limit int) string {
	if strings.ContainsAny(s, ":=") && credentialShapes.MatchString(s) {
		return withheldWords
	}
	return bounded(strings.TrimSpace(strings.Map(visible, s)), limit)
}

// visible leaves nothing that ends a line, moves a cursor or turns text around.
func visible(r rune) rune {
	if r == utf8.RuneError || !unicode.IsPrint(r) {
		return ' '
	}
	return r
}

// codeOf keeps a code that could be one. Codes of tomorrow are words too.
func codeOf(s string) Code {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' && r != '.' {
			return withheldCode
		}
	}
	return Code(bounded(s, 128))
}

// unquotedError is an error without what it quotes: net/http quotes what it could
// not read, and that may be anything of a broken reply.
type unquotedError struct {
	text  string
	cause error
}

func (e *unquotedError) Error() string { return e.text }
func (e *unquotedError) Unwrap() error { return e.cause }

func unquoted(err error) error {
	text, _, quotes := strings.Cut(err.Error(), `"`)
	if !quotes {
		return err
	}
	return &unquotedError{strings.TrimRight(text, " :") + " (what it said is withheld)", err}
}
