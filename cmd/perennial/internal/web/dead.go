// Dead letters: the list of commands that could not be read, and the page of one dead letter.

package web

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs/command"
	"perennial/ledger/fact"
)

const (
	// deadShown limits the letters on a page. deadBytes limits the bytes of commands that are
	// read for a page.
	deadShown = 200
	deadBytes = 4 << 20
	// deadText limits the bytes of a command that a page shows.
	deadText = 16 << 10
)

// Letter is a dead letter: a command that could not be read.
type Letter struct {
	Seq       uint64
	Published time.Time
	Subject   string
	Reason    string
	Bytes     int
	Text      string // the command, quoted if it is not text
}

// ErrNoLetter means that a dead letter does not exist.
var ErrNoLetter = errors.New("there is no such dead letter")

type letterView struct {
	Letter

	Cut   int    // number of bytes of the text that are not shown
	Typed string // text in the form: the command, or a correction that was not published
	Why   string // reason entered with the correction
	Wrong string // why the correction was not published
}

type deadView struct {
	Rows []Letter
	Next string // sequence after which the next page begins; "" at the end
}

// letterOf formats a letter as `perennial dead-letters show` does. It replaces characters
// that cannot be printed with spaces, and shortens a long text.
func letterOf(l Letter) letterView {
	v := letterView{Letter: l}
	text := fact.Printable(l.Text, "\n\t")
	end := min(len(text), deadText)
	for end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	v.Text, v.Cut = text[:end], len(text)-end
	v.Typed = v.Text
	return v
}

// showLetterAgain shows the form with a correction that was not published, and the reason.
func (s *operationPages) showLetterAgain(q accountRequest, form func(string) string, why error) (page, error) {
	ctx, cancel := context.WithTimeout(q.Context(), askWithin)
	defer cancel()
	v, err := readLetter(ctx, q.account, form("id"))
	if err != nil {
		return page{}, err
	}
	v.Typed, v.Why, v.Wrong = q.PostFormValue("content"), form("reason"), why.Error()
	return page{name: "letter", title: "Dead letter " + form("id"), code: http.StatusUnprocessableEntity, data: v}, nil
}

// correctLetter is the parser for corrected content, which is published in place of a dead
// letter.
func correctLetter(form func(string) string) (changeFunc, []string, error) {
	seq, err := strconv.ParseUint(form("id"), 10, 64)
	if err != nil {
		return nil, nil, errors.New("the form names no dead letter")
	}
	content := []byte(form("content"))
	return func(ctx context.Context, a Account, by signature) (string, error) {
		return "", a.Requeue(ctx, seq, content, by.name, by.reason)
	}, []string{"dead-letters", "requeue", form("id"), "--file", "corrected.json"}, nil
}

func (s *operationPages) dead(q accountRequest) (page, error) {
	ctx, cancel := context.WithTimeout(q.Context(), askWithin)
	defer cancel()
	form := q.URL.Query()
	if form.Has("seq") {
		v, err := readLetter(ctx, q.account, form.Get("seq"))
		return page{name: "letter", title: "Dead letter " + form.Get("seq"), data: v}, err
	}
	var v deadView
	after, _ := strconv.ParseUint(form.Get("after"), 10, 64) // an invalid number means the first page
	read := 0
	for l, err := range q.account.Letters(ctx, after) {
		if err != nil {
			return page{}, noLetters(err)
		}
		if len(v.Rows) == deadShown || read >= deadBytes {
			v.Next = strconv.FormatUint(v.Rows[len(v.Rows)-1].Seq, 10)
			break
		}
		read += l.Bytes
		l.Text = ""
		v.Rows = append(v.Rows, l)
	}
	return page{name: "dead", title: "Dead letters", data: v}, nil
}

// letterWith finds the first dead letter whose command contains an id. It searches as many dead
// letters as a page lists.
func letterWith(ctx context.Context, a Account, id string) (seq uint64, found bool) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	looked, read := 0, 0
	for l, err := range a.Letters(ctx, 0) {
		if looked, read = looked+1, read+l.Bytes; err != nil || looked > deadShown || read > deadBytes {
			return 0, false
		}
		if command.MayHaveID([]byte(l.Text), id) {
			return l.Seq, true
		}
	}
	return 0, false
}

func readLetter(ctx context.Context, a Account, text string) (v letterView, err error) {
	seq, err := strconv.ParseUint(text, 10, 64)
	var l Letter
	if err == nil {
		l, err = a.Letter(ctx, seq)
	}
	if errors.Is(err, ErrNoLetter) || errors.Is(err, strconv.ErrSyntax) || errors.Is(err, strconv.ErrRange) {
		return v, &pageError{http.StatusNotFound, "This dead letter does not exist: it was requeued or dropped, or the number is wrong.", nil}
	}
	if err != nil {
		return v, noLetters(err)
	}
	return letterOf(l), nil
}

// noLetters returns the error page for dead letters that cannot be read from NATS.
func noLetters(err error) error {
	return &pageError{http.StatusServiceUnavailable, "The dead letters cannot be read from NATS now: " + err.Error(), err}
}

func ofLetter(verb verbs.Spec, command string) formParser {
	return func(form func(string) string) (changeFunc, []string, error) {
		seq, err := strconv.ParseUint(form("id"), 10, 64)
		if err != nil {
			return nil, nil, errors.New("the form names no dead letter")
		}
		r := newRequest(verb, "dead-letters", command)
		r.set("seq", seq, strings.TrimSpace(form("id")))
		return r.make, r.words, nil
	}
}
