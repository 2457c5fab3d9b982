package crashtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// nscStore stands in for nsc's store. It executes the nsc commands that `nats-config --nsc` prints,
// because nsc itself is on no module proxy.
type nscStore struct {
	t        testing.TB
	dir      string
	operator nkeys.KeyPair
	keys     map[string]nkeys.KeyPair // by account
	accounts map[string]*jwt.AccountClaims
}

func newNSCStore(t testing.TB, dir string) *nscStore {
	t.Helper()
	s := &nscStore{t: t, dir: dir, keys: map[string]nkeys.KeyPair{}, accounts: map[string]*jwt.AccountClaims{}}
	var err error
	s.operator, err = nkeys.CreateOperator()
	s.check(err)
	s.account("SYS")
	return s
}

func (s *nscStore) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *nscStore) public(key nkeys.KeyPair) string {
	s.t.Helper()
	public, err := key.PublicKey()
	s.check(err)
	return public
}

func (s *nscStore) account(name string) {
	s.t.Helper()
	key, err := nkeys.CreateAccount()
	s.check(err)
	s.keys[name], s.accounts[name] = key, jwt.NewAccountClaims(s.public(key))
	s.accounts[name].Name = name
}

// carryOut executes the lines of a script. A word may be in single quotes.
func (s *nscStore) carryOut(script string) {
	s.t.Helper()
	for line := range strings.Lines(script) {
		words := strings.Fields(strings.ReplaceAll(line, "'", "")) // no subject contains a space or a quote
		switch {
		case len(words) == 0 || words[0] == "#" || words[0] == "set":
		case words[0] == "mkdir":
			s.check(os.MkdirAll(filepath.Join(s.dir, words[2]), 0o700))
		default:
			s.command(words[1]+" "+words[2], words[3:])
		}
	}
}

func (s *nscStore) command(what string, words []string) {
	s.t.Helper()
	flag := map[string]string{}
	for i, w := range words {
		if strings.HasPrefix(w, "--") {
			flag[w] = "true"
		} else {
			flag[words[i-1]] = w
		}
	}
	account := s.accounts[flag["--account"]]
	switch what {
	case "add account":
		s.account(flag["--name"])
	case "edit account":
		if flag["--js-enable"] == "" {
			s.limit(s.accounts[flag["--name"]], flag)
			return
		}
		s.accounts[flag["--name"]].Limits.JetStreamLimits = jwt.JetStreamLimits{DiskStorage: -1, MemoryStorage: -1, Streams: -1, Consumer: -1, MemoryMaxStreamBytes: -1, DiskMaxStreamBytes: -1}
	case "add export":
		account.Exports.Add(&jwt.Export{Name: flag["--name"], Subject: jwt.Subject(flag["--subject"]), Type: typeOfExport(flag["--service"] != ""),
			TokenReq: flag["--private"] != "", ResponseType: jwt.ResponseType(flag["--response-type"])})
	case "generate activation":
		s.activate(flag)
	case "add import":
		s.importOf(account, flag)
	case "add user":
		s.user(flag)
	default:
		s.t.Fatalf("nsc %s: unknown", what)
	}
}

func (s *nscStore) limit(account *jwt.AccountClaims, flag map[string]string) {
	s.t.Helper()
	for limit, text := range map[*int64]string{&account.Limits.Conn: flag["--conns"], &account.Limits.Subs: flag["--subscriptions"]} {
		n, err := strconv.ParseInt(text, 10, 64)
		s.check(err)
		*limit = n
	}
}

func typeOfExport(service bool) jwt.ExportType {
	if service {
		return jwt.Service
	}
	return jwt.Stream
}

func (s *nscStore) activate(flag map[string]string) {
	s.t.Helper()
	exporter := s.accounts[flag["--account"]]
	at := slices.IndexFunc(exporter.Exports, func(e *jwt.Export) bool { return string(e.Subject) == flag["--subject"] })
	if at < 0 {
		s.t.Fatalf("%s is not exported", flag["--subject"])
	}
	claim := jwt.NewActivationClaims(s.accounts[flag["--target-account"]].Subject)
	claim.ImportSubject, claim.ImportType = jwt.Subject(flag["--subject"]), exporter.Exports[at].Type
	token, err := claim.Encode(s.keys[flag["--account"]])
	s.check(err)
	s.check(os.WriteFile(filepath.Join(s.dir, flag["--output-file"]), []byte(token), 0o600))
}

func (s *nscStore) importOf(account *jwt.AccountClaims, flag map[string]string) {
	s.t.Helper()
	token, err := os.ReadFile(filepath.Join(s.dir, flag["--token"]))
	s.check(err)
	claim, err := jwt.DecodeActivationClaims(string(token))
	s.check(err)
	i := &jwt.Import{Name: flag["--name"], Subject: claim.ImportSubject, Type: claim.ImportType, Account: claim.Issuer, Token: string(token), Share: flag["--share"] != ""}
	i.LocalSubject = jwt.RenamingSubject(flag["--local-subject"])
	account.Imports.Add(i)
}

// user writes the credentials file of a user.
func (s *nscStore) user(flag map[string]string) {
	s.t.Helper()
	key, err := nkeys.CreateUser()
	s.check(err)
	claim := jwt.NewUserClaims(s.public(key))
	claim.Name = flag["--name"]
	for list, words := range map[*jwt.StringList]string{&claim.Pub.Allow: flag["--allow-pub"], &claim.Sub.Allow: flag["--allow-sub"]} {
		if words != "" {
			list.Add(strings.Split(words, ",")...)
		}
	}
	token, err := claim.Encode(s.keys[flag["--account"]])
	s.check(err)
	seed, err := key.Seed()
	s.check(err)
	creds, err := jwt.FormatUserConfig(token, seed)
	s.check(err)
	s.check(os.WriteFile(filepath.Join(s.dir, flag["--name"]+".creds"), creds, 0o600))
}

// serverConfig returns the server's own part of the configuration: the operator, and each account's
// JWT.
func (s *nscStore) serverConfig() string {
	s.t.Helper()
	operator := jwt.NewOperatorClaims(s.public(s.operator))
	operator.SystemAccount = s.accounts["SYS"].Subject
	token, err := operator.Encode(s.operator)
	s.check(err)
	text := fmt.Sprintf("operator: %s\nsystem_account: %s\nresolver: MEMORY\nresolver_preload {\n", token, operator.SystemAccount)
	for name, a := range s.accounts {
		var problems jwt.ValidationResults
		a.Validate(&problems)
		for _, p := range problems.Issues {
			if p.Blocking {
				s.t.Errorf("account %s: %s", name, p.Description)
			}
		}
		token, err := a.Encode(s.operator)
		s.check(err)
		text += fmt.Sprintf("  %s: %s\n", a.Subject, token)
	}
	return text + "}\n"
}

// startOfJWTs runs the server with the accounts that the script creates.
func (n *natsProcess) startOfJWTs(script string) {
	t := n.w.t
	t.Helper()
	store := newNSCStore(t, n.w.dir)
	store.carryOut(script)
	n.w.write("nats.conf", fmt.Sprintf("listen: \"127.0.0.1:%d\"\njetstream {store_dir: %q}\n%s", n.port, filepath.Join(n.w.dir, "outer"), store.serverConfig()), 0o600)
	n.cmd = natsServer(t, filepath.Join(n.w.dir, "nats.conf"))
	if err := n.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	n.awaitListening()
}
