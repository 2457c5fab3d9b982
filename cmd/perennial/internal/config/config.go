package config

import (
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"perennial/ledger/files"
	"perennial/queue"
	"perennial/schedules"
	"perennial/schedules/plans"
	"perennial/upstream"
)

// EmbeddedSandbox is the base_url of an account whose provider is the sandbox in the runner's
// process. The ledger of such an account is bound to this text, not to an address, because the
// sandbox's port changes.
const EmbeddedSandbox = "sandbox:embedded"

// MaxConfigBytes limits the configuration file, in bytes.
const MaxConfigBytes = 1 << 20

// Config is perennial.yaml. An unknown key is an error. The file contains no secrets.
type Config struct {
	DataDir   string              `yaml:"data_dir" default:"perennial-data" doc:"directory of the ledgers; like all paths, relative to the directory of this file"`
	NATS      NATS                `yaml:"nats"`
	HTTP      HTTP                `yaml:"http"`
	Tracing   Tracing             `yaml:"tracing"`
	Accounts  map[string]*Account `yaml:"accounts"`
	Schedules []plans.Schedule    `yaml:"schedules"`
	Webhooks  []Webhook           `yaml:"webhooks"`

	File         string // path of the file; "" for the embedded defaults
	Embedded     bool   // the provider is the sandbox in the runner's process
	RefillEvents bool   // set by `run --refill-events`

	lines map[string]int // line number of each key in the file, by path
}

// NATS configures an external NATS server or the embedded NATS server.
type NATS struct {
	URL          string `yaml:"url" doc:"one or more addresses, separated by commas; empty: an embedded server on listen"`
	Listen       string `yaml:"listen" default:"127.0.0.1:4222" doc:"address of the embedded server; loopback only"`
	CredsFile    string `yaml:"creds_file" doc:"for url: credentials file"`
	NKeyFile     string `yaml:"nkey_file" doc:"for url: file with the seed of an NKey, mode 0600"`
	CAFile       string `yaml:"ca_file" absent:"the system's" doc:"for url: PEM file of the authorities that may sign the server's certificate"`
	CertFile     string `yaml:"cert_file" doc:"for url: file with the client's certificate"`
	KeyFile      string `yaml:"key_file" doc:"for url: file with the private key of cert_file"`
	TLSFirst     bool   `yaml:"tls_first" doc:"for url: the server begins with TLS (handshake_first)"`
	Domain       string `yaml:"domain" doc:"for url: the JetStream domain of a leaf node ([nats.md](nats.md))"`
	User         string `yaml:"user" absent:"perennial" doc:"for url: user name, with password_file"`
	PasswordFile string `yaml:"password_file" doc:"for url: file with the password of user; mode 0600"`
	Users        []User `yaml:"users"`
	Context      string `yaml:"context" doc:"a context of the nats command line, instead of url"`
	// SyncAlways makes `doctor` accept streams with one replica. This is a setting, because a
	// client cannot find out whether a server syncs every write.
	SyncAlways bool `yaml:"sync_always" doc:"for url or context: the servers sync every write, sync_interval: always ([machines.md](machines.md#what-an-external-nats-may-lose))"`
}

// External reports whether the configuration has an external NATS server. Otherwise the
// embedded server runs.
func (n NATS) External() bool { return n.URL != "" || n.Context != "" }

// Account configures one provider account: its address and its limits.
type Account struct {
	BaseURL            string          `yaml:"base_url" absent:"required" doc:"address of the provider; https, or http to this machine only; or sandbox:embedded, the sandbox inside the runner, which needs no app_id and no secret"`
	CAFile             string          `yaml:"ca_file" absent:"the system's" doc:"for https: PEM file of the authorities that may sign the provider's certificate"`
	AppID              string          `yaml:"app_id" absent:"required" doc:"live_app_… is production, sbx_app_… is a sandbox"`
	SecretFile         string          `yaml:"secret_file" doc:"file with the API Secret, mode 0600, or root:group 0440; or the variable PERENNIAL_NAME_SECRET, or a systemd credential NAME.secret"`
	RatePerSecond      float64         `yaml:"rate_per_second" default:"5" min:"0" doc:"requests per second to the provider"`
	Concurrency        int             `yaml:"concurrency" default:"8" min:"1" max:"1024" doc:"concurrent requests to the provider"`
	PollFloor          time.Duration   `yaml:"poll_floor" default:"1s" doc:"shortest time between polls of an order; the provider may ask for a longer time"`
	DailyLimitCents    int64           `yaml:"daily_limit_cents" min:"0" doc:"the most that the account may spend in a day, including the expected cost of operations in progress or in review; refunds of earlier days do not raise it; 0: no limit"`
	DailyLimitTimezone string          `yaml:"daily_limit_timezone" default:"UTC" doc:"time zone of the day of daily_limit_cents"`
	ReconcileEvery     time.Duration   `yaml:"reconcile_every" default:"1h" doc:"how often the books are compared with the provider"`
	SignPort           bool            `yaml:"sign_port" doc:"whether the signed host includes the port"`
	CIDRField          string          `yaml:"cidr_field" doc:"the API's field name for an order line's CIDRs; empty: no CIDRs are sent"`
	Replicas           int             `yaml:"replicas" default:"1" min:"1" doc:"copies of each of the account's streams, on a NATS cluster"`
	WarnBefore         []time.Duration `yaml:"warn_before" absent:"[24h, 1h]" doc:"how long before each expiry proxy.expiring is published; []: never"`
	ListingLossPercent int             `yaml:"listing_loss_percent" default:"20" min:"1" max:"100" doc:"if a listing lacks this share of the living proxies, and at least listing_loss_min, the account is not ready"`
	ListingLossMin     int             `yaml:"listing_loss_min" default:"5" min:"1" doc:"see listing_loss_percent"`

	Secret   string
	Location *time.Location
}

// Load reads the configuration file at path. If path is "", it reads ./perennial.yaml, or
// returns the embedded defaults if this file does not exist.
func Load(path string) (*Config, error) {
	if path == "" {
		if !Exists("perennial.yaml") {
			return Embedded(), nil
		}
		path = "perennial.yaml"
	}
	text, err := files.Read(path, MaxConfigBytes, refuseWorldWritable)
	if err != nil {
		return nil, invalid("the configuration %s cannot be read: %w", path, cause(err))
	}
	c := &Config{File: path}
	d := &decoder{lines: map[string]int{}}
	if err := d.document(text, c); err != nil {
		return nil, invalid("the configuration %s cannot be read: %w", path, cause(err))
	}
	if len(d.faults) > d.unknownKeys { // a value that could not be read would make others seem wrong
		return nil, d.err(path)
	}
	c.lines = d.lines
	c.Defaults()
	for _, a := range c.Accounts {
		c.Embedded = c.Embedded || a != nil && a.BaseURL == EmbeddedSandbox
	}
	c.DataDir = c.dataDirPath()
	for _, file := range []*string{&c.NATS.CredsFile, &c.NATS.NKeyFile, &c.NATS.CAFile, &c.NATS.CertFile, &c.NATS.KeyFile} {
		if *file != "" {
			*file = c.ResolvePath(*file)
		}
	}
	for _, a := range c.Accounts {
		if a != nil && a.CAFile != "" {
			a.CAFile = c.ResolvePath(a.CAFile)
		}
	}
	for _, err := range c.validate() {
		d.check(err)
	}
	return c, d.err(path)
}

// refuseWorldWritable refuses a file that every user may write to, because the configuration
// decides which server is called and what may be spent. It accepts a file that a group may
// write to, because many systems give each user a separate group.
func refuseWorldWritable(path string, info fs.FileInfo) error {
	if info.Mode().Perm()&0o002 == 0 {
		return nil
	}
	return fmt.Errorf("every user may write it (mode %04o)\ncheck its content, then run: chmod o-w %s", info.Mode().Perm(), path)
}

// dataDirPath returns the path of the data directory. It is relative to the configuration file,
// so that one configuration always means one ledger (docs/decisions/0013). If the file is in
// the current directory, the path stays as written.
func (c *Config) dataDirPath() string {
	if filepath.Dir(c.File) == "." {
		return c.DataDir
	}
	return c.ResolvePath(c.DataDir)
}

// Embedded returns the configuration of `perennial run` without a file: an embedded NATS
// server, and the sandbox as the provider of the account "main".
func Embedded() *Config {
	c := &Config{Embedded: true, Accounts: map[string]*Account{"main": {BaseURL: EmbeddedSandbox, RatePerSecond: 200, Concurrency: 16}}}
	c.Defaults()
	return c
}

// validate checks all keys, including rules between keys. Each error has the key and the
// fix.
func (c *Config) validate() []error {
	if len(c.Accounts) == 0 {
		return []error{errors.New("accounts is empty: add at least one, such as accounts.main; for a trial, `perennial init --sandbox` writes one")}
	}
	_, identity := c.HTTP.Identity.OfPages()
	return slices.DeleteFunc(slices.Concat(c.outOfBounds(), c.validateAccounts(), c.validateUsers(), c.validateSchedules(), c.validateWebhooks(), c.unknownAccounts(),
		[]error{c.NATS.validate(), c.validateProduction(), identity, c.Tracing.validate()}), func(err error) bool { return err == nil })
}

func (c *Config) validateAccounts() (all []error) {
	seen := map[string]string{}
	if c.Embedded && len(c.Accounts) > 1 {
		all = append(all, errors.New("the embedded sandbox has one account: configure no other account beside base_url "+EmbeddedSandbox))
	}
	for _, name := range c.AccountNames() {
		a := c.Accounts[name]
		if err := queue.ValidAccount(name); err != nil {
			all = append(all, fmt.Errorf("accounts.%s: %w", name, err))
		}
		if a == nil {
			all = append(all, fmt.Errorf("accounts.%s is empty: it needs base_url, app_id and a secret", name))
			continue
		}
		if err := a.Validate(); err != nil {
			all = append(all, fmt.Errorf("accounts.%s.%w", name, err))
		} else if other := seen[a.BaseURL+" "+a.AppID]; other != "" {
			all = append(all, fmt.Errorf("accounts.%s and accounts.%s are the same key at the same address: keep one", other, name))
		}
		seen[a.BaseURL+" "+a.AppID] = name
	}
	return all
}

func (c *Config) unknownAccounts() (all []error) {
	missing := func(name, format string, args ...any) {
		if _, ok := c.Accounts[name]; !ok {
			all = append(all, fmt.Errorf(format, append(args, name)...))
		}
	}
	for i, u := range c.NATS.Users {
		for _, r := range u.Roles {
			for _, name := range r.Accounts {
				missing(name, "nats.users[%d] is %s of account %q, which is not configured", i, r.Role)
			}
		}
	}
	for i, p := range c.HTTP.Identity.People {
		for _, name := range p.Accounts {
			missing(name, "http.identity.people[%d].accounts names %q, which is not configured", i)
		}
	}
	for i, s := range c.Schedules {
		missing(s.Account, "schedules[%d].account is %q, which is not configured", i)
	}
	for i, w := range c.Webhooks {
		missing(w.Account, "webhooks[%d].account is %q, which is not configured", i)
	}
	return all
}

// Validate sets Location, or returns an error with the first invalid field and the fix. It
// does not check the bounds of numbers, which are in the tags.
func (a *Account) Validate() (err error) {
	if a.BaseURL == EmbeddedSandbox {
		if a.AppID+a.SecretFile+a.CAFile != "" {
			return fmt.Errorf("base_url is %s: leave app_id, secret_file and ca_file out", EmbeddedSandbox)
		}
		a.Location, err = time.LoadLocation(a.DailyLimitTimezone)
		return err
	}
	if err := upstream.CheckBaseURL(a.BaseURL); err != nil {
		return fmt.Errorf("base_url %w", err)
	}
	if a.CAFile != "" && !strings.HasPrefix(a.BaseURL, "https:") {
		return errors.New("ca_file is set, and base_url is no https address: leave ca_file out")
	}
	if _, err := upstream.EnvironmentOf(a.AppID); err != nil {
		return fmt.Errorf("app_id is %q and %w", a.AppID, err)
	}
	if err := schedules.CheckWarnBefore(a.WarnBefore); err != nil {
		return err
	}
	if a.ReconcileEvery < 0 || a.PollFloor < 0 {
		return fmt.Errorf("reconcile_every is %s and poll_floor %s: neither may be negative", a.ReconcileEvery, a.PollFloor)
	}
	if a.Location, err = time.LoadLocation(a.DailyLimitTimezone); err != nil {
		return fmt.Errorf("daily_limit_timezone: %w", err)
	}
	return nil
}

// validateProduction refuses a production account on an embedded server without users, because
// any client that can publish a command could spend money.
func (c *Config) validateProduction() error {
	if name := c.Production(); name != "" && !c.NATS.External() && len(c.NATS.Users) == 0 {
		return fmt.Errorf("accounts.%s is a production account and the embedded NATS server has no users: any client that can connect could spend its money. Set nats.users, or nats.url", name)
	}
	return nil
}

// Production returns the first account that spends real money. It returns "" if there is none.
func (c *Config) Production() string {
	for _, name := range c.AccountNames() {
		if a := c.Accounts[name]; a != nil {
			if env, _ := upstream.EnvironmentOf(a.AppID); env == upstream.Production {
				return name
			}
		}
	}
	return ""
}

func (c *Config) validateSchedules() (all []error) {
	names := map[string]bool{}
	for i, s := range c.Schedules {
		for _, err := range s.Faults() {
			all = append(all, fmt.Errorf("schedules[%d]: %w", i, err))
		}
		if names[s.Name] {
			all = append(all, fmt.Errorf("schedules[%d].name is %q, which appears twice", i, s.Name))
		}
		names[s.Name] = true
	}
	for _, name := range c.AccountNames() {
		all = append(all, plans.CheckRenames(c.SchedulesOf(name)))
	}
	return all
}

// CheckLists returns an error if a schedule's list of proxies does not exist. It checks the
// schedules of one account, or of all accounts if account is "". `run` calls CheckLists at
// its start. Load does not call it, because the commands that repair such a schedule must
// work without the list.
func (c *Config) CheckLists(account string) error {
	for i := range c.Schedules {
		if account != "" && c.Schedules[i].Account != account {
			continue
		}
		m := &c.Schedules[i].Match
		for _, name := range []string{m.ProxyIDsFile, m.ExceptProxyIDsFile} {
			if name != "" && !Exists(c.ResolvePath(name)) {
				d := &decoder{lines: c.lines}
				d.check(fmt.Errorf("schedules[%d].match: the list %s does not exist", i, c.ResolvePath(name)))
				return d.err(c.File)
			}
		}
	}
	return nil
}

// AccountNames returns the account names, sorted.
func (c *Config) AccountNames() []string {
	return slices.Sorted(maps.Keys(c.Accounts))
}

// Pick returns the account on which a command acts. This is the account with the given name,
// or the only account if name is "".
func (c *Config) Pick(name string) (string, error) {
	if name == "" && len(c.Accounts) == 1 {
		return c.AccountNames()[0], nil
	}
	if name == "" {
		return "", invalid("there are several accounts (%s): say which with --account", strings.Join(c.AccountNames(), ", "))
	}
	if c.Accounts[name] == nil {
		return "", &NotConfiguredError{name, c.AccountNames()}
	}
	return name, nil
}

// LedgerPath returns the path of an account's ledger.
func (c *Config) LedgerPath(account string) string {
	return filepath.Join(c.DataDir, account+".ledger.db")
}

// PositionPath returns the path of the local copy of a webhook's position.
func (c *Config) PositionPath(account, webhook string) string {
	return filepath.Join(c.DataDir, account+".webhook."+webhook+".json")
}

// Exists reports whether a file or directory exists.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Client returns the account's API client. If observe is not nil, the client calls it after each
// request.
func (c *Config) Client(name, secret string, clock func() time.Time, observe func(upstream.Exchange)) (*upstream.Client, error) {
	a := c.Accounts[name]
	roots, err := ReadRoots(a.CAFile)
	if err != nil {
		return nil, fmt.Errorf("account %s: %w", name, err)
	}
	client, err := upstream.New(upstream.Config{
		BaseURL: a.BaseURL, AppID: a.AppID, Secret: secret, SignPort: a.SignPort, Roots: roots, Clock: clock, UserAgent: "perennial/" + Version, Observe: observe,
	})
	if err != nil {
		return nil, fmt.Errorf("account %s: %w", name, err)
	}
	return client, nil
}

// ReadRoots reads the certificates of a ca_file. If path is "", it returns nil, which means the
// system's certificates.
func ReadRoots(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // nil, as in crypto/tls
	}
	text, err := files.Read(path, MaxConfigBytes, refuseWorldWritable)
	if err != nil {
		return nil, invalid("ca_file %s cannot be read: %w", path, cause(err))
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, invalid("ca_file %s has no certificate: it holds, as PEM, those of the authority that signed the provider's", path)
	}
	return roots, nil
}

// PickAll returns the accounts that a command reads. These are the named account or, if named is
// "", all accounts.
func (c *Config) PickAll(named string) ([]string, error) {
	if named == "" && len(c.Accounts) > 1 {
		return c.AccountNames(), nil
	}
	account, err := c.Pick(named)
	return []string{account}, err
}

// SettingsOf returns a short hash of an account's settings and schedules. Runners of one
// version use it to compare their settings. The hash excludes the secret and the paths of
// secret_file and ca_file, which may differ between machines.
func (c *Config) SettingsOf(account string) string {
	own := *c.Accounts[account]
	own.Secret, own.SecretFile, own.CAFile, own.Location = "", "", "", nil
	if c.Embedded { // a running sandbox has an address and credentials of its own
		own.BaseURL, own.AppID = EmbeddedSandbox, ""
	}
	sorted := c.SchedulesOf(account)
	slices.SortFunc(sorted, func(a, b plans.Schedule) int { return cmp.Compare(a.Name, b.Name) })
	sum := sha256.New()
	_, _ = fmt.Fprintf(sum, "%#v%#v", own, sorted) // fmt prints maps in key order
	return hex.EncodeToString(sum.Sum(nil)[:6])
}

// SchedulesOf returns the schedules of one account.
func (c *Config) SchedulesOf(account string) (own []plans.Schedule) {
	for _, s := range c.Schedules {
		if s.Account == account {
			own = append(own, s)
		}
	}
	return own
}

// ResolvePath joins a relative path in the configuration to the configuration's directory.
// An absolute path stays as it is.
func (c *Config) ResolvePath(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(c.File), name)
}

// maxListFile limits a list of proxies, in bytes. A list of that size has more than a million
// ids.
const maxListFile = 64 << 20

// ReadListFile reads a schedule's list of proxies.
func (c *Config) ReadListFile(name string) ([]byte, error) {
	return files.Read(c.ResolvePath(name), maxListFile)
}

// Error means that the configuration, or a file that it refers to, cannot be used. Its text
// says what is wrong, where, and what to do.
type Error struct{ err error }

func (e *Error) Error() string { return e.err.Error() }

func (e *Error) Unwrap() error { return e.err }

func invalid(format string, args ...any) error { return &Error{fmt.Errorf(format, args...)} }

// NotConfiguredError means that a requested account is not configured.
type NotConfiguredError struct {
	account string
	have    []string
}

func (e *NotConfiguredError) Error() string {
	return fmt.Sprintf("account %q is not in the configuration, which has %s", e.account, strings.Join(e.have, ", "))
}
