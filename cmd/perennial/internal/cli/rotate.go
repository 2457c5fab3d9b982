package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"perennial/cmd/perennial/internal/config"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/files"
	"perennial/upstream"
)

type rotation struct {
	app    *app
	appID  string
	secret setup // reads the new API Secret as init does
	anyway bool

	config  *config.Config
	account string
}

// RotationResult is the JSON output of `accounts rotate`.
type RotationResult struct {
	Account    string `json:"account"`
	OldAppID   string `json:"old_app_id"`
	AppID      string `json:"app_id"`
	SecretFile string `json:"secret_file"`
	Ambiguous  int    `json:"ambiguous_operations"` // operations with an unknown outcome under the old App ID
}

func (a operateCommands) accountRotate() *cobra.Command {
	r := &rotation{app: a.app, secret: setup{app: a.app}}
	c := newCommand("rotate", "Check new credentials and write them to the configuration", func(ctx context.Context, _ []string) error {
		r.secret.in = bufio.NewReader(a.stdin)
		return r.run(ctx)
	})
	c.Aliases = []string{"rotate-key"}
	c.Long = "Checks with GETs that the new key belongs to the same account and environment. Then writes its secret to a new\n" +
		"file and changes app_id and secret_file in the configuration together. `perennial run` uses them from its next start.\n" +
		"An operation with an unknown outcome is not retried under another App ID: wait until no such operation is open."
	f := c.Flags()
	f.StringVar(&r.appID, "app-id", "", "the new App ID (default: keep the current App ID and change only the secret)")
	f.StringVar(&r.secret.secretFile, "secret-file", "", "read the new API Secret from this file; - is the standard input")
	f.BoolVar(&r.anyway, "anyway", false, "rotate even though operations with an unknown outcome will need review")
	return c
}

func (r *rotation) run(ctx context.Context) error {
	if err := r.load(); err != nil {
		return err
	}
	old := r.config.Accounts[r.account]
	out := RotationResult{Account: r.account, OldAppID: old.AppID, AppID: r.appID}
	secret, err := r.secret.secret(ctx)
	if err != nil {
		return err
	}
	if err := r.prove(ctx, secret); err != nil {
		return err
	}
	if r.appID != old.AppID {
		if out.Ambiguous, err = r.ambiguous(ctx, old.AppID); err != nil {
			return err
		}
	}
	if out.Ambiguous > 0 && !r.anyway {
		return &exitError{ExitPerson, fmt.Errorf("%d operations may have been executed under %s, and are not sent under another App ID\nlet them end first (`perennial status`), or use --anyway: they go to review", out.Ambiguous, old.AppID)}
	}
	if out.SecretFile, err = r.write(secret); err != nil {
		return err
	}
	return r.app.say(out, "%s: App ID %s, secret in %s\nstart `perennial run` again to use it; then the old key can be revoked and %s removed\n",
		r.account, r.appID, out.SecretFile, old.SecretFile)
}

// load selects the account. It returns an error if the credentials do not come from a
// configuration file, or if the new App ID is for another environment.
func (r *rotation) load() (err error) {
	if r.config, r.account, err = r.app.configured(); err != nil {
		return err
	}
	old := r.config.Accounts[r.account]
	if r.config.File == "" {
		return usage("there is no configuration file: the embedded sandbox has no credentials to change")
	}
	if old.SecretFile == "" || os.Getenv(config.SecretVariable(r.account)) != "" || os.Getenv("CREDENTIALS_DIRECTORY") != "" {
		return usage("the secret of account %s does not come from secret_file in %s\nchange it where it comes from, and app_id with it", r.account, r.config.File)
	}
	r.appID = cmp.Or(r.appID, old.AppID)
	was, _ := upstream.EnvironmentOf(old.AppID)
	if is, _ := upstream.EnvironmentOf(r.appID); is != was {
		return usage("%s is for another environment than %s: that is another account, with a ledger of its own", r.appID, old.AppID)
	}
	return nil
}

// prove checks with the provider that the new key works. It returns an error if the key and
// the ledger belong to different provider accounts.
func (r *rotation) prove(ctx context.Context, secret string) error {
	changed := *r.config.Accounts[r.account]
	changed.AppID = r.appID
	if err := changed.Validate(); err != nil {
		return usage("--app-id: %w", err)
	}
	client, err := (&config.Config{Accounts: map[string]*config.Account{r.account: &changed}}).Client(r.account, secret, time.Now, nil)
	if err != nil {
		return err
	}
	defer client.Close()
	account, err := client.Account(ctx)
	if err == nil {
		var wallet upstream.Wallet
		wallet, err = client.Wallet(ctx)
		if err == nil && (wallet.Environment != client.Environment() || wallet.CashValue != (wallet.Environment == upstream.Production)) {
			err = fmt.Errorf("its wallet is of %s", wallet.Environment)
		}
	}
	if err != nil {
		return &exitError{ExitFailed, fmt.Errorf("the new key of account %s does not work, and nothing was changed: %w", r.account, err)}
	}
	l, err := r.ledger(ctx)
	if l == nil || err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	b, err := l.Binding(ctx)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil
	}
	if err == nil && b.AccountID != account.AccountID {
		return &exitError{ExitFailed, fmt.Errorf("the new key is of %s and the ledger of account %s belongs to %s: nothing was changed", account.AccountID, r.account, b.AccountID)}
	}
	return err
}

// ledger opens the account's ledger. It returns nil if the account has no ledger yet.
func (r *rotation) ledger(ctx context.Context) (*ledger.Ledger, error) {
	path := r.config.LedgerPath(r.account)
	if !config.Exists(path) {
		return nil, nil //nolint:nilnil // a missing ledger is not an error
	}
	return ledger.Open(ctx, ledger.Config{Path: path, Clock: time.Now, ReadOnly: true})
}

// ambiguous counts the unfinished operations that the provider may have executed with an App ID.
func (r *rotation) ambiguous(ctx context.Context, appID string) (n int, err error) {
	l, err := r.ledger(ctx)
	if l == nil || err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	for _, state := range []fact.State{fact.StateSending, fact.StateWaiting} {
		all, err := l.Operations.OperationsIn(ctx, state, 1<<20)
		if err != nil {
			return n, err
		}
		for _, o := range all {
			if o.AppID == appID && (o.Ambiguous > 0 || state == fact.StateSending) {
				n++
			}
		}
	}
	return n, nil
}

// write writes the secret to a new file. It then replaces the configuration with a single
// rename, so that key and secret always belong together.
func (r *rotation) write(secret string) (name string, err error) {
	old := r.config.Accounts[r.account]
	name = filepath.Join(filepath.Dir(old.SecretFile), r.account+"."+time.Now().UTC().Format("20060102T150405.000")+".secret")
	path := r.config.ResolvePath(name)
	changed, err := files.Read(r.config.File, config.MaxConfigBytes)
	if err != nil {
		return "", err
	}
	for key, value := range map[string]string{"app_id": r.appID, "secret_file": name} {
		if changed, err = setScalar(changed, value, "accounts", r.account, key); err != nil {
			return "", usage("configuration %s: %w\nchange app_id and secret_file by hand", r.config.File, err)
		}
	}
	if err := files.WriteLike(path, r.config.ResolvePath(old.SecretFile), writeText(secret+"\n")); err != nil {
		return "", fmt.Errorf("nothing was changed: write %s: %w", path, err)
	}
	target, err := r.checkChanged(string(changed))
	if err != nil {
		return "", errors.Join(err, os.Remove(path))
	}
	// If this fails, the configuration may already refer to the new secret, so the secret is not
	// removed.
	if err := files.WriteLike(target, target, writeText(string(changed))); err != nil {
		return "", fmt.Errorf("%w\nthe new secret is in %s", err, path)
	}
	return name, nil
}

// checkChanged returns the path of the file to replace. If the configuration file is a link,
// this is the target of the link. It returns an error unless the changed configuration loads and
// contains the new App ID.
func (r *rotation) checkChanged(changed string) (target string, err error) {
	next := r.config.File + ".next" // next to the link rather than to its target, because relative paths begin there
	if err := writeNew(next, changed, 0o600); err != nil {
		return "", err
	}
	c, err := config.Load(next)
	if err == nil && c.Accounts[r.account].AppID != r.appID {
		err = errors.New("app_id could not be changed")
	}
	if err := errors.Join(err, os.Remove(next)); err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(r.config.File)
}

func writeText(all string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, all); return err }
}

// setScalar returns a YAML text with the value at path changed. Comments and layout remain.
func setScalar(text []byte, value string, path ...string) ([]byte, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, err
	}
	node := &document
	if node.Kind == yaml.DocumentNode && len(node.Content) == 1 {
		node = node.Content[0]
	}
	for _, key := range path {
		if node = member(node, key); node == nil {
			return nil, fmt.Errorf("%s is not there", strings.Join(path, "."))
		}
	}
	lines := strings.SplitAfter(string(text), "\n")
	if node.Kind != yaml.ScalarNode || node.Line < 1 || node.Line > len(lines) {
		return nil, fmt.Errorf("%s is not a plain value", strings.Join(path, "."))
	}
	line := []rune(lines[node.Line-1])
	head, rest := line[:node.Column-1], string(line[node.Column-1:])
	old := node.Value
	if quote := rest[:1]; quote == `"` || quote == "'" {
		old = quote + old + quote
	}
	tail, ok := strings.CutPrefix(rest, old)
	if !ok {
		return nil, fmt.Errorf("%s is written in a way that cannot be changed here", strings.Join(path, "."))
	}
	lines[node.Line-1] = string(head) + fmt.Sprintf("%q", value) + tail
	return []byte(strings.Join(lines, "")), nil
}

func member(node *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(node.Content) && node.Kind == yaml.MappingNode; i += 2 {
		if node.Content[i].Value == key {
			return node.Content[i+1]
		}
	}
	return nil
}
