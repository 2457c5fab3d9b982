// This file writes the roles as nsc commands, for servers whose accounts are JWTs.

package roles

import (
	"fmt"
	"strconv"
	"strings"

	"perennial/queue"
	"perennial/queue/service"
)

// NSCCommands returns shell commands that create the same accounts and users as
// [ServerConfig], for servers whose accounts are JWTs. The commands use nsc, the NATS tool
// that manages the accounts' keys. Each subject is exported only to accounts that have an
// activation for it.
func NSCCommands(users []User, verbs []service.Verb) (string, error) {
	var s nscScript
	s.run("nsc", "add", "account", "--name", RunnerAccount)
	s.run("nsc", "edit", "account", "--name", RunnerAccount, "--js-enable", "0")
	s.run("nsc", "add", "user", "--account", RunnerAccount, "--name", RunnerUser)
	exported := map[string]bool{}
	for _, u := range users {
		if err := CheckUser(u); err != nil {
			return "", err
		}
		for _, r := range u.rights(verbs) {
			if !exported[r.subject] {
				s.export(r)
			}
			exported[r.subject] = true
		}
	}
	s.run("mkdir", "-p", activations)
	for _, u := range users {
		s.user(u, verbs)
	}
	return s.String(), nil
}

// activations is the directory, relative to the working directory, for the tokens that allow
// an account to import a subject.
const activations = "perennial-activations"

type nscScript struct {
	strings.Builder
	tokens int
}

// run adds one command, with each word quoted for a shell if needed.
func (s *nscScript) run(words ...string) {
	for i, w := range words {
		if strings.Trim(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./") != "" {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	_, _ = fmt.Fprintln(s, strings.Join(words, " "))
}

func (s *nscScript) export(r right) {
	words := []string{"nsc", "add", "export", "--account", RunnerAccount, "--name", r.subject, "--subject", r.subject, "--private"}
	if !r.stream {
		words = append(words, "--service")
	}
	if r.answers {
		words = append(words, "--response-type", "Stream")
	}
	s.run(words...)
}

func (s *nscScript) user(u User, verbs []service.Verb) {
	account := queue.UserAccount(u.Name)
	s.run("nsc", "add", "account", "--name", account)
	s.run("nsc", "edit", "account", "--name", account, "--conns", strconv.Itoa(MaxConnections), "--subscriptions", strconv.Itoa(maxSubscriptions))
	publish, subscribe := u.subjects(verbs)
	for _, r := range u.rights(verbs) {
		s.tokens++
		token := fmt.Sprintf("%s/%d.jwt", activations, s.tokens)
		s.run("nsc", "generate", "activation", "--account", RunnerAccount, "--target-account", account, "--subject", r.subject, "--output-file", token)
		words := []string{"nsc", "add", "import", "--account", account, "--name", r.here(), "--token", token}
		if r.local != "" {
			words = append(words, "--local-subject", r.local)
		}
		if r.identity {
			words = append(words, "--share")
		}
		s.run(words...)
	}
	s.run("nsc", "add", "user", "--account", account, "--name", u.Name, "--allow-pub", strings.Join(publish, ","), "--allow-sub", strings.Join(subscribe, ","))
}
