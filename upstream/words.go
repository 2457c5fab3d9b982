// Text from servers becomes one printable line without credentials, for storage and display. A
// sentence is cut after a word such as "password" if credentials may follow.

package upstream

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// credentialShapes matches the usual forms of proxy credentials: a URL with user info,
// host:port:user:password, user:password@host:port, or a field such as password. Text that
// matches is withheld completely, because the text goes to journals, logs and terminals.
// withoutCredentials removes credentials from sentences.
var credentialShapes = regexp.MustCompile(`(?i)[a-z0-9+.-]+://[^\s/@]*@|` +
	`[^\s:@]+:[0-9]{2,5}:[^\s:]+:\S+|` +
	`[^\s:@]+:[^\s@]+@[^\s@]+:[0-9]{2,5}|` +
	`(password|passwd|secret|credentials?)["'\\]*\s*[:=]\s*\S`)

const (
	withheldText = "(withheld: it looks like credentials)"
	withheldCode = "unreadable_code" // no decision depends on this code; it leads to a review
)

func sanitizeSentence(s string, limit int) string {
	return bounded(withoutCredentials(sanitizeName(s, len(s))), limit)
}

func sanitizeName(s string, limit int) string {
	if strings.ContainsAny(s, ":=") && credentialShapes.MatchString(s) {
		return withheldText
	}
	return bounded(strings.TrimSpace(strings.Map(visible, s)), limit)
}

// visible returns r, or a space in place of characters that end a line, move the cursor or
// reverse text.
func visible(r rune) rune {
	if r == utf8.RuneError || !unicode.IsPrint(r) {
		return ' '
	}
	return r
}

// sanitizeCode returns the code, shortened to about 128 bytes, if it consists of letters,
// digits and "_-.". Otherwise it returns withheldCode.
func sanitizeCode(s string) Code {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' && r != '.' {
			return withheldCode
		}
	}
	return Code(bounded(s, 128))
}

// unquotedError is an error without quoted text. net/http quotes text that it could not parse,
// which may be any part of a broken response.
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

// credentialWord matches words that may precede a credential, as in "the password hunter2 is
// too weak". The text after such a word is kept only as far as it consists of plainWords. Any
// other word may be the credential.
var credentialWord = regexp.MustCompile(`(?i)password|passwd|passphrase|passcode|user[ _-]*name|credential|secret|connection[ _-]*(string|data|details)|` +
	`api[ _-]*key|密码|密碼|口令|用户名|用戶名|账号|帳號|密钥|密鑰|凭证|凭据|令牌|` +
	`(^|[^a-z])(pass|pwd|pw|user|login|token|auth|authorization|bearer)([^a-z]|$)`)

var plainWords = strings.Fields(`a an the is are was were be been being has have had do does did must may might can cannot could should shall will
would not no nor none and or but if of for in on at to by with without from into as than then too also only very again already still yet this
that these those it its your their our each any all one both either neither same other another there here which when while where about
field fields value values parameter parameters header headers request requests body page pages list lists order orders proxy proxies account
accounts customer key keys user users name names password passwords username usernames login secret secrets token tokens credential credentials
connection string strings data details api wrong invalid incorrect bad weak short long simple strong empty blank missing required needed
optional given set unset unknown unsupported supported expired revoked disabled enabled locked blocked suspended altered changed change changes
reset reused used use unusable unique taken exist exists found denied refused rejected accepted allowed forbidden permitted match matches
mismatch differ differs different contain contains include least most more less characters character letters letter digits digit symbols symbol
length minimum maximum between days hours minutes seconds ago before after later please try retry contact support verified verify verification
authentication authorization failed failure failing fails error errors operation operations part through outside valid format available
unavailable temporarily`)

const (
	withheldWord = "(withheld)"
	withheldRest = "(the rest is withheld: it may be credentials)"
)

// withoutCredentials removes possible credentials before and after the first credential word.
// Before the credential word, it withholds every word that the dictionary does not match. After
// the credential word, it cuts the text at the first word that is not in plainWords.
func withoutCredentials(s string) string {
	at := credentialWord.FindStringIndex(s)
	if at == nil {
		return s
	}
	word, rest := s[at[0]:at[1]], s[at[1]:]
	if word[len(word)-1] == ' ' { // the last character belongs to the rest
		word, rest = word[:len(word)-1], " "+rest
	}
	return onlyDictionary(s[:at[0]]) + word + onlyPlain(rest)
}

func onlyPlain(rest string) string {
	var kept strings.Builder
	for i, word := range strings.SplitAfter(rest, " ") {
		bare := strings.ToLower(strings.Trim(word, ` .,;!?()"'`))
		glued := i == 0 && bare != "" && bare != "s" // attached to the credential word without a space
		if glued || bare != "" && bare != "s" && !slices.Contains(plainWords, bare) && !fewDigits.MatchString(bare) {
			return strings.TrimRight(kept.String(), " ") + " " + withheldRest
		}
		kept.WriteString(word)
	}
	return kept.String()
}

var fewDigits = regexp.MustCompile(`^[0-9]{1,2}$`)

func onlyDictionary(s string) string {
	words := strings.SplitAfter(s, " ")
	for i, word := range words {
		if bare := strings.TrimRight(word, " "); !dictionary.MatchString(bare) {
			words[i] = withheldWord + word[len(bare):]
		}
	}
	return strings.Join(words, "")
}

// dictionary matches words, abbreviations, field names, ids as in the API document, numbers,
// and words in other scripts.
var dictionary = regexp.MustCompile(`^[(]*(` +
	`[A-Za-z]?[a-z]*([-/'][a-z]+)*|[A-Z]{2,5}s?|` +
	`[a-z]+([_.][a-z0-9]+|\[[0-9]+\])*|` +
	`-?[0-9]{1,6}([.,][0-9]{1,3})*%?|` +
	`[^\x00-\x7f][^\x21-\x2b\x2f\x3a-\x7f]*)[).,;:!?]*$`)

const maxFieldMessages = 400

// fieldMessages returns the messages in data.errors as text. The API document does not give
// the structure (API: Errors). fieldMessages treats object keys as field names, lists as
// several messages, and all other values as messages.
func fieldMessages(raw json.RawMessage) string {
	var v any
	if raw == nil || json.Unmarshal(raw, &v) != nil {
		return ""
	}
	var said []string
	collectMessages("", v, &said)
	return bounded(strings.Join(said, "; "), maxFieldMessages)
}

func collectMessages(path string, v any, said *[]string) {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			collectMessages(strings.TrimPrefix(path+"."+key, "."), v[key], said)
		}
	case []any:
		for _, one := range v {
			collectMessages(path, one, said)
		}
	case nil:
	default:
		words := sanitizeMessage(path, fmt.Sprint(v))
		if path != "" && words != "" {
			if !fieldNames.MatchString(path) {
				path = withheldWord
			}
			words = path + ": " + words
		}
		if words != "" && len(*said) < 16 {
			*said = append(*said, words)
		}
	}
}

// fieldNames matches the path of a field. A key that does not match may be any text.
var fieldNames = regexp.MustCompile(`^[A-Za-z0-9_.\[\]-]{1,100}$`)

// sanitizeMessage sanitises a message from data.errors, which often repeats the submitted
// value. It withholds words that the dictionary does not match. For a field with a credential
// word in its path, it cuts the message at the first word that is not in plainWords.
func sanitizeMessage(path, value string) string {
	if credentialWord.MatchString(path) {
		return strings.TrimSpace(onlyPlain(" " + sanitizeName(value, len(value))))
	}
	value = sanitizeName(value, len(value))
	if value == withheldText {
		return value
	}
	return bounded(onlyDictionary(withoutCredentials(value)), maxFieldMessages)
}
