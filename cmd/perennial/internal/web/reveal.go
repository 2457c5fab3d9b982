// Reveal: an operator reads one proxy's credentials from the provider, once.

package web

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"perennial/cmd/perennial/internal/verbs"
)

// The rate limit of reveals, shared by all people. It slows down a script that reveals many
// proxies, until a person notices the entries in the journal.
const (
	revealsInARow = 5
	revealEvery   = 2 * time.Second
	revealWithin  = 15 * time.Second // limits the wait for the provider
)

// revealedView is the data of the page for one reveal. The data is never stored.
type revealedView struct {
	ProxyID string
	Why     string // the reason if nothing is revealed
	Noted   bool   // whether the journal has an entry for the reveal
	Shown   []Credential
}

// Credential is one part of a proxy's connection data. Formatting it prints "[redacted]". Only
// Text returns the value.
type Credential struct {
	Name string
	read func() string // a function, because fmt prints unexported strings
}

// NewCredential returns a credential with a name, such as Password, and its value.
func NewCredential(name, text string) Credential {
	return Credential{name, func() string { return text }}
}

// Text returns the value.
func (c Credential) Text() string { return c.read() }

// Format prints "[redacted]" for every formatting verb.
func (c Credential) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[redacted]")) }

// reveal responds with a proxy's credentials after the journal has recorded the reader and
// the reason. This process reads the credentials from the provider, so no other connection
// carries them. The response to a POST is not stored. To see the credentials again, the
// person must send the form again, which the journal records again.
func (s *proxyPages) reveal(q accountRequest) {
	name, id, reason := q.account.AccountName(), q.PostFormValue("id"), strings.TrimSpace(q.PostFormValue("reason"))
	refuse := func(code int, why string) { s.revealed(q, code, revealedView{ProxyID: id, Why: why}) }
	switch {
	case !q.session.MayChange(name):
		s.frame.fail(q.to, q.Request, q.session, http.StatusForbidden, "You are signed in as a viewer: nothing is revealed.", nil)
		return
	case id == "" || reason == "":
		refuse(http.StatusUnprocessableEntity, "Say which proxy, and why: the reason is kept with your name.")
		return
	case !s.reveals.Allow():
		q.to.Header().Set("Retry-After", strconv.Itoa(int(revealEvery/time.Second)))
		refuse(http.StatusTooManyRequests, "Too many credentials were revealed in a row: wait a few seconds.")
		return
	}
	noting, cancel := context.WithTimeout(q.Context(), askWithin)
	defer cancel()
	if _, err := ask(noting, q.account, verbs.Reveal, verbs.RevealRequest{ProxyID: id, By: q.session.Name, Reason: reason}); err != nil {
		refuse(http.StatusUnprocessableEntity, "Nothing is revealed, because the reveal could not be recorded: "+err.Error())
		return
	}
	s.Log.WithField("account", name).WithField("by", q.session.Name).WithField("proxy_id", id).Info("credentials of a proxy were asked for on the pages")
	reading, cancel := context.WithTimeout(q.Context(), revealWithin)
	defer cancel()
	secret, err := q.account.Reveal(reading, id)
	if err != nil {
		s.revealed(q, http.StatusBadGateway, revealedView{ProxyID: id, Noted: true, Why: "The credentials cannot be read from the provider: " + err.Error()})
		return
	}
	s.revealed(q, http.StatusOK, revealedView{ProxyID: id, Noted: true, Shown: secret})
}

func (s *proxyPages) revealed(q accountRequest, code int, data revealedView) {
	v := s.frame.view(q.session, "Credentials of "+data.ProxyID, "proxies")
	v.Account, v.Data = q.account.AccountName(), data
	v.Command = shell([]string{"perennial", "proxies", "get", data.ProxyID, "--reveal", "--account", v.Account})
	s.frame.page(q.to, q.Request, "revealed", code, v)
}
