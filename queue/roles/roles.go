package roles

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"perennial/queue"
	"perennial/queue/broker"
	"perennial/queue/service"
)

// Grant gives one role for some accounts.
type Grant struct {
	Role     queue.Role
	Accounts []string
}

// User is a user of the NATS server, with the roles of its grants. If no users are
// configured for the embedded server, every process of this machine may connect, with all
// permissions.
type User struct {
	Name     string
	Password string // plain text, or a bcrypt hash
	Grants   []Grant
}

// RunnerAccount is the NATS account of the runner, which has the streams.
const RunnerAccount = "PERENNIAL"

// RunnerUser is the name of the runner's own user. LocalUser is the user of commands on the
// runner's machine.
const (
	RunnerUser = "perennial"
	LocalUser  = "local"
)

var userName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// CheckUser returns an error if something is wrong with a user.
func CheckUser(u User) error {
	if !userName.MatchString(u.Name) || u.Name == RunnerUser {
		return fmt.Errorf("user %.70q must be 1 to 64 of a-z, A-Z, 0-9, - and _, begin with a letter or digit, and not be %s", u.Name, RunnerUser)
	}
	if len(u.Grants) == 0 {
		return fmt.Errorf("user %s has no roles, and could do nothing: add roles, such as [{role: producer, accounts: [main]}]", u.Name)
	}
	for _, g := range u.Grants {
		if !slices.Contains([]queue.Role{queue.RoleProducer, queue.RoleSubscriber, queue.RoleViewer, queue.RoleOperator}, g.Role) {
			return fmt.Errorf("user %s has the role %.40q: it must be producer, subscriber, viewer or operator", u.Name, g.Role)
		}
		if len(g.Accounts) == 0 {
			return fmt.Errorf("user %s is %s of no account: add accounts", u.Name, g.Role)
		}
		for _, a := range g.Accounts {
			if err := queue.ValidAccount(a); err != nil {
				return fmt.Errorf("user %s: %w", u.Name, err)
			}
		}
	}
	return nil
}

type right struct {
	subject  string // subject in the runner's account
	local    string // subject in the user's account; "" if it is the same
	stream   bool   // messages that the user receives, instead of requests that it sends
	answers  bool   // a request may have several replies
	identity bool   // the server tells the runner which user sends the request
}

func (r right) here() string { return cmp.Or(r.local, r.subject) }

// rights returns the rights of a user's grants, without duplicates. verbs are the verbs of
// an account's service.
func (u User) rights(verbs []service.Verb) []right {
	var all []right
	for _, g := range u.Grants {
		for _, a := range g.Accounts {
			all = append(all, rightsOf(g.Role, a, verbs)...)
		}
	}
	slices.SortFunc(all, func(a, b right) int { return strings.Compare(a.subject, b.subject) })
	taken := map[string]bool{}
	return slices.DeleteFunc(all, func(r right) bool {
		once := r.here() // two imports of a service would send requests twice
		if r.stream {
			once = r.subject // several accounts send results to the same inboxes
		}
		again := taken[once]
		taken[once] = true
		return again
	})
}

func rightsOf(r queue.Role, account string, verbs []service.Verb) []right {
	var all []right
	for _, v := range verbs {
		if slices.Contains(v.Roles, r) {
			all = append(all, right{subject: queue.ServiceSubject(account, v.Name), answers: true, identity: true})
		}
	}
	switch r {
	case queue.RoleProducer:
		for _, subject := range queue.CommandSubjects(account) {
			all = append(all, right{subject: subject})
		}
		all = append(all, right{subject: queue.ReplySubject(account, queue.AllInboxes), local: queue.AllInboxes, stream: true})
	case queue.RoleSubscriber, queue.RoleViewer:
		all = append(all, eventRights(account)...)
	case queue.RoleOperator:
		stream := queue.EventsStream(account)
		all = append(all, right{subject: broker.BrokerSubject(account, broker.AnyOf+broker.ConsumerDelete(stream)), local: "$JS.API." + broker.ConsumerDelete(stream), identity: true})
		all = append(all, apiRights("CONSUMER.NAMES."+stream, "CONSUMER.LIST."+stream)...)
		all = append(all, eventRights(account)...)
		all = append(all, deadRights(account)...)
		all = append(all, webhookRights(account)...)
	}
	return all
}

// eventRights returns the rights to read an account's events: live, by direct reads, and
// with consumers that are created through the broker.
func eventRights(account string) []right {
	stream := queue.EventsStream(account)
	all := append(apiRights("STREAM.INFO."+stream, "STREAM.MSG.GET."+stream,
		"CONSUMER.INFO."+stream+".*", "CONSUMER.MSG.NEXT."+stream+".*"),
		right{subject: queue.EventSubject(account, ">"), stream: true}, right{subject: "$JS.ACK." + stream + ".>"})
	for _, op := range broker.Brokered(stream) {
		all = append(all, right{subject: broker.BrokerSubject(account, op), local: "$JS.API." + op, identity: true})
	}
	return all
}

// deadRights returns the rights to read and delete an account's dead letters, and to read
// the state of its streams.
func deadRights(account string) []right {
	dead := queue.DeadStream(account)
	return apiRights("STREAM.INFO."+dead, "DIRECT.GET."+dead, "STREAM.MSG.GET."+dead, "STREAM.MSG.DELETE."+dead,
		"STREAM.INFO."+queue.CommandsStream(account), "STREAM.INFO."+queue.ObjectsStream(queue.SnapshotsBucket(account)))
}

// webhookRights returns the rights to read, move and remove the positions of an account's
// webhooks.
func webhookRights(account string) []right {
	bucket := queue.WebhooksBucket(account)
	return append(apiRights("STREAM.INFO."+queue.KeyValueStream(bucket), "DIRECT.GET."+queue.KeyValueStream(bucket)+".>"),
		right{subject: "$KV." + bucket + ".*"})
}

func apiRights(ops ...string) []right {
	all := make([]right, len(ops))
	for i, op := range ops {
		all[i] = right{subject: "$JS.API." + op, answers: true}
	}
	return all
}

// Limits of one user, so that it cannot use all connections and subscriptions of the
// server.
const (
	MaxConnections   = 256
	maxSubscriptions = 16 * MaxConnections
)

// ServerConfig returns the part of a NATS server's configuration that gives the users their
// roles, and the runner its own user and account. secret returns the text after `password:`
// for a user, as a quoted string or a variable.
func ServerConfig(users []User, verbs []service.Verb, secret func(user string) string) (string, error) {
	for _, u := range users {
		if err := CheckUser(u); err != nil {
			return "", err
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "accounts {\n  %s {\n    jetstream: enabled\n    users: [{user: %q, password: %s}]\n    exports: [\n", RunnerAccount, RunnerUser, secret(RunnerUser))
	writeExports(&b, users, verbs)
	b.WriteString("    ]\n  }\n")
	for _, u := range users {
		u.write(&b, verbs, secret(u.Name))
	}
	b.WriteString("}\n")
	return b.String(), nil
}

func writeExports(b *strings.Builder, users []User, verbs []service.Verb) {
	type export struct {
		subject         string
		stream, answers bool
	}
	to := map[export][]string{}
	var order []export
	for _, u := range users {
		for _, r := range u.rights(verbs) {
			e := export{r.subject, r.stream, r.answers}
			if to[e] == nil {
				order = append(order, e)
			}
			to[e] = append(to[e], fmt.Sprintf("%q", queue.UserAccount(u.Name)))
		}
	}
	for _, e := range order {
		kind, more := "service", ""
		if e.stream {
			kind = "stream"
		}
		if e.answers {
			more = ", response_type: stream"
		}
		fmt.Fprintf(b, "      {%s: %q, accounts: [%s]%s}\n", kind, e.subject, strings.Join(to[e], ", "), more)
	}
}

// userInfo is the request for the permissions of the connection's user; see [Separation].
const userInfo = "$SYS.REQ.USER.INFO"

func (u User) subjects(verbs []service.Verb) (publish, subscribe []string) {
	publish, subscribe = []string{userInfo}, []string{queue.AllInboxes}
	for _, r := range u.rights(verbs) {
		if r.stream {
			if r.here() != queue.AllInboxes {
				subscribe = append(subscribe, r.here())
			}
		} else {
			publish = append(publish, r.here())
		}
	}
	return publish, subscribe
}

func (u User) write(b *strings.Builder, verbs []service.Verb, secret string) {
	fmt.Fprintf(b, "  %s {\n    limits: {max_connections: %d, max_subscriptions: %d}\n    imports: [\n", queue.UserAccount(u.Name), MaxConnections, maxSubscriptions)
	for _, r := range u.rights(verbs) {
		kind, more := "service", ""
		if r.stream {
			kind = "stream"
		}
		if r.local != "" {
			more += fmt.Sprintf(", to: %q", r.local)
		}
		if r.identity {
			more += ", share: true"
		}
		fmt.Fprintf(b, "      {%s: {account: %s, subject: %q}%s}\n", kind, RunnerAccount, r.subject, more)
	}
	publish, subscribe := u.subjects(verbs)
	fmt.Fprintf(b, "    ]\n    users: [{user: %q, password: %s, permissions: {\n      publish: {allow: [%s]}\n      subscribe: {allow: [%s]}\n    }}]\n  }\n",
		u.Name, secret, quoted(publish), quoted(subscribe))
}

func quoted(words []string) string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = fmt.Sprintf("%q", w)
	}
	return strings.Join(all, ", ")
}

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
