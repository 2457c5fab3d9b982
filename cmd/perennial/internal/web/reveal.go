// Reveal: the credentials of one proxy, which an operator reads from the provider once.

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

// Reveals are as many in a row, and then one every so often, for everybody together: a
// script that walks a fleet is slower than a person notices it in the journal.
const (
	revealsInARow = 5
	revealEvery   = 2 * time.Second
	revealWithin  = 15 * time.Second // for the provider's answer
)

// revealedView is what the page of a reveal shows. It is made for one answer, and kept
// nowhere.
type revealedView struct {
	ProxyID string
	Why     string // nothing is revealed
	Noted   bool   // the fact is in the journal
	Shown   []Credential
}

// Credential is one text that connects to a proxy. It prints as "[redacted]": only Text
// gives it out.
type Credential struct {
	Name string
	read func() string // a function: fmt follows pointers in unexported fields
}

// NewCredential makes one of its name, such as Password, and its text.
func NewCredential(name, text string) Credential {
	return Credential{name, func() string { return text }}
}

// Text is what connects to the proxy.
func (c Credential) Text() string { return c.read() }

// Format prints "[redacted]" for every verb.
func (c Credential) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[redacted]")) }

// reveal answers with a proxy's credentials, as far as the journal says before who reads
// them and why. The provider is asked by this process itself, so that they go over nothing
// but its connection and this answer; the answer is to a POST and is not stored, so that
// neither loading it again nor going back shows them.
func (s *Server) reveal(q accountRequest) {
	name, id, reason := q.account.AccountName(), q.PostFormValue("id"), strings.TrimSpace(q.PostFormValue("reason"))
	refuse := func(code int, why string) { s.revealed(q, code, revealedView{ProxyID: id, Why: why}) }
	switch {
	case !q.session.MayChange(name):
		s.fail(q.to, q.Request, q.session, http.StatusForbidden, "You are signed in as a viewer: nothing is revealed.", nil)
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
		refuse(http.StatusUnprocessableEntity, "It could not be noted who reads them, and so nothing is revealed: "+err.Error())
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

func (s *Server) revealed(q accountRequest, code int, data revealedView) {
	v := s.view(q.session, "Credentials of "+data.ProxyID, "proxies")
	v.Account, v.Data = q.account.AccountName(), data
	v.Command = shell([]string{"perennial", "proxies", "get", data.ProxyID, "--reveal", "--account", v.Account})
	s.page(q.to, q.Request, "revealed", code, v)
}
