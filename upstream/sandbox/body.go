// The strict reader of POST bodies.

package sandbox

import (
	"encoding/json"
	"slices"
	"strconv"
	"unicode/utf8"
)

// badField is why a request is not valid: the field's path and what is wrong
// with it.
type badField struct{ field, message string }

// bodyReader reads the JSON of the two POST bodies, more strictly than
// encoding/json and with the path of what is wrong: names are exact, none appears
// twice, unknown ones are refused (assumed: a misspelt field must not pass for
// its absence), integers are integers, and null counts as absent (assumed). It
// never recurses into what it does not know, so depth costs nothing.
type bodyReader struct {
	in     []byte
	at     int
	prefix string // path of the object being read, with its dot
	bad    *badField
}

// readBodyObject reads the one JSON object of a body; field reads the value of
// a known name and reports whether it is one.
func readBodyObject(body []byte, field func(p *bodyReader, name string) bool) *badField {
	if !utf8.Valid(body) {
		return &badField{"body", "is not valid UTF-8"}
	}
	p := &bodyReader{in: body}
	p.object("body", field)
	if p.bad == nil && p.peek() != 0 {
		p.refuse("body", "has something after the JSON object")
	}
	return p.bad
}

func (p *bodyReader) refuse(field, message string) {
	if p.bad == nil {
		p.bad = &badField{p.prefix + field, message}
	}
}

func (p *bodyReader) broken() {
	p.prefix = ""
	p.refuse("body", "is not valid JSON")
}

// peek skips white space and gives the next byte, 0 at the end.
func (p *bodyReader) peek() byte {
	for ; p.at < len(p.in); p.at++ {
		switch c := p.in[p.at]; c {
		case ' ', '\t', '\r', '\n':
		case 0:
			return 1 // no token begins with it
		default:
			return c
		}
	}
	return 0
}

func (p *bodyReader) take(c byte) bool {
	if p.peek() != c {
		return false
	}
	p.at++
	return true
}

func (p *bodyReader) object(name string, field func(p *bodyReader, name string) bool) {
	if !p.take('{') {
		p.refuse(name, "must be a JSON object")
		return
	}
	if p.take('}') {
		return
	}
	var room [8]string // more names than any known object has
	seen := room[:0]
	for p.bad == nil {
		key := p.key()
		switch {
		case p.bad != nil:
			return
		case slices.Contains(seen, key):
			p.refuse(key, "appears twice")
			return
		case !field(p, key):
			p.refuse(shorten(key), "is not a known field")
			return
		}
		seen = append(seen, key)
		if p.bad != nil || p.take(',') {
			continue
		}
		if !p.take('}') {
			p.broken()
		}
		return
	}
}

// key reads a name with its colon.
func (p *bodyReader) key() string {
	if p.peek() != '"' {
		p.broken()
		return ""
	}
	key := p.quoted()
	if p.bad == nil && !p.take(':') {
		p.broken()
	}
	return key
}

// shorten keeps an unknown name from filling the reply.
func shorten(name string) string {
	const enough = 64
	switch {
	case name == "":
		return `""`
	case len(name) <= enough:
		return name
	}
	cut := enough
	for !utf8.RuneStart(name[cut]) {
		cut--
	}
	return name[:cut] + "…"
}

// quoted reads the string that begins here.
func (p *bodyReader) quoted() string {
	start, plain := p.at, true
	for p.at++; p.at < len(p.in); p.at++ {
		switch c := p.in[p.at]; {
		case c == '\\':
			plain = false
			p.at++
		case c == '"':
			p.at++
			if plain {
				return string(p.in[start+1 : p.at-1])
			}
			var out string
			if json.Unmarshal(p.in[start:p.at], &out) != nil {
				p.broken()
			}
			return out
		case c < 0x20:
			p.broken()
			return ""
		}
	}
	p.broken()
	return ""
}

// null reads a null, if there is one.
func (p *bodyReader) null() bool {
	if p.peek() != 'n' || string(p.in[p.at:min(p.at+4, len(p.in))]) != "null" {
		return false
	}
	p.at += 4
	return true
}

// text reads a string; false for null.
func (p *bodyReader) text(name string) (string, bool) {
	if p.null() {
		return "", false
	}
	if p.peek() != '"' {
		p.refuse(name, "must be a string")
		return "", false
	}
	return p.quoted(), p.bad == nil
}

// integer reads an integer; false for null. 30.0 and 3e1 are none (assumed).
func (p *bodyReader) integer(name string) (int64, bool) {
	if p.null() {
		return 0, false
	}
	p.peek()
	start := p.at
	for p.at < len(p.in) && (p.in[p.at] >= '0' && p.in[p.at] <= '9' || p.in[p.at] == '-' && p.at == start) {
		p.at++
	}
	digits := p.in[start:p.at]
	fraction := p.at < len(p.in) && (p.in[p.at] == '.' || p.in[p.at] == 'e' || p.in[p.at] == 'E')
	n, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil || fraction || strconv.FormatInt(n, 10) != string(digits) { // the last refuses 030 and -0
		p.refuse(name, "must be an integer")
		return 0, false
	}
	return n, true
}

// list reads an array of at most limit entries; false for null.
func (p *bodyReader) list(name string, limit int, entry func(i int)) bool {
	if p.null() {
		return false
	}
	if !p.take('[') {
		p.refuse(name, "must be an array")
		return false
	}
	if p.take(']') {
		return true
	}
	for i := 0; p.bad == nil; i++ {
		if i == limit {
			p.refuse(name, "must have at most "+strconv.Itoa(limit)+" entries")
			return false
		}
		if entry(i); p.bad != nil || p.take(',') {
			continue
		}
		if !p.take(']') {
			p.broken()
		}
		break
	}
	return p.bad == nil
}

// texts reads an array of strings.
func (p *bodyReader) texts(name string, limit int) []string {
	out := []string{}
	if !p.list(name, limit, func(i int) {
		text, ok := p.text(name)
		if !ok && p.bad == nil || p.bad != nil && p.bad.field != "body" {
			p.bad = &badField{p.prefix + name + "." + strconv.Itoa(i), "must be a string"}
		}
		out = append(out, text)
	}) {
		return nil
	}
	return out
}
