// The configuration file: its structure, defaults and validation.

package config

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/v2"

	"perennial/ledger/files"
	"perennial/queue"
	"perennial/schedules"
	"perennial/upstream"
)

// Config is perennial.yaml. Unknown keys are errors; it holds no secrets.
type Config struct {
	DataDir   string               `koanf:"data_dir"` // default ./perennial-data; of a file: beside it
	NATS      NATS                 `koanf:"nats"`
	HTTP      HTTP                 `koanf:"http"`
	Tracing   Tracing              `koanf:"tracing"`
	Accounts  map[string]*Account  `koanf:"accounts"`
	Schedules []schedules.Schedule `koanf:"schedules"`
	Webhooks  []Webhook            `koanf:"webhooks"`

	// None of the keys of a file:
	File     string `koanf:"-"` // where it was read from, "" for the embedded defaults
	Embedded bool   `koanf:"-"` // nothing was configured: the sandbox runs in this process

	RefillEvents bool `koanf:"-"` // `run --refill-events`

	lines map[string]int // of the keys in the file, by path
}

// NATS is how the streams are reached: another server, or the embedded one.
type NATS struct {
	URL          string `koanf:"url"`    // empty: an embedded server on listen
	Listen       string `koanf:"listen"` // default 127.0.0.1:4222
	CredsFile    string `koanf:"creds_file"`
	NKeyFile     string `koanf:"nkey_file"`     // the seed of an NKey
	CAFile       string `koanf:"ca_file"`       // certificates that the server's is checked with; default: those of the system
	CertFile     string `koanf:"cert_file"`     // the client's certificate,
	KeyFile      string `koanf:"key_file"`      // and its key
	TLSFirst     bool   `koanf:"tls_first"`     // the server begins with TLS (handshake_first)
	Domain       string `koanf:"domain"`        // of JetStream, behind a leaf node
	User         string `koanf:"user"`          // for url; default perennial where password_file is given
	PasswordFile string `koanf:"password_file"` // of user
	Users        []User `koanf:"users"`         // of the embedded server
	Context      string `koanf:"context"`       // of the NATS CLI
	// SyncAlways states of url or context that its server syncs every write, which no
	// client can see (sync_interval: always). The doctor takes one copy for enough then.
	SyncAlways bool `koanf:"sync_always"`
}

// External reports whether the configuration names a server; else there is an embedded one.
func (n NATS) External() bool { return n.URL != "" || n.Context != "" }

// HTTP is where health, metrics and the dashboard are served.
type HTTP struct {
	Listen string   `koanf:"listen"` // default 127.0.0.1:8080
	Hosts  []string `koanf:"hosts"`  // names under which pages are served, beside addresses and names without a dot
	// TokensFile has the hashes of the tokens that sign people in to the pages, mode 0600.
	TokensFile string `koanf:"tokens_file"`
	// MetricsTokenFile has the token that /metrics asks for, mode 0600; empty: it asks for none.
	MetricsTokenFile string   `koanf:"metrics_token_file"`
	Identity         Identity `koanf:"identity"` // of people whom a proxy in front signs in; default: none
}

// Account is one account of the provider: where it is reached, and its limits.
type Account struct {
	BaseURL            string        `koanf:"base_url"`
	CAFile             string        `koanf:"ca_file"` // certificates that the provider's is checked with; default: those of the system
	AppID              string        `koanf:"app_id"`
	SecretFile         string        `koanf:"secret_file"`
	RatePerSecond      float64       `koanf:"rate_per_second"`      // default 5
	Concurrency        int           `koanf:"concurrency"`          // default 8
	PollFloor          time.Duration `koanf:"poll_floor"`           // default 1s
	DailyLimitCents    int64         `koanf:"daily_limit_cents"`    // default 0: none
	DailyLimitTimezone string        `koanf:"daily_limit_timezone"` // default UTC
	ReconcileEvery     time.Duration `koanf:"reconcile_every"`      // default 1h
	SignPort           bool          `koanf:"sign_port"`
	CIDRField          string        `koanf:"cidr_field"`
	Replicas           int           `koanf:"replicas"` // default 1
	// WarnBefore is how long before an expiry proxy.expiring is published; default: 24h and
	// 1h. [] publishes none.
	WarnBefore []time.Duration `koanf:"warn_before"`
	// A listing that does not show ListingLossPercent of the living proxies, and at least
	// ListingLossMin of them, is a finding; default 20 and 5.
	ListingLossPercent int `koanf:"listing_loss_percent"`
	ListingLossMin     int `koanf:"listing_loss_min"`

	// None of the keys of a file:
	Secret   string         `koanf:"-"`
	Location *time.Location `koanf:"-"`
}

// Load reads --config, else ./perennial.yaml, else takes the embedded
// defaults.
func Load(path string) (*Config, error) {
	if path == "" {
		if !Exists("perennial.yaml") {
			return Embedded(), nil
		}
		path = "perennial.yaml"
	}
	text, err := files.Read(path, MaxConfigBytes, notOthers)
	if err != nil {
		return nil, invalid("configuration %s cannot be read: %w", path, err)
	}
	k := koanf.New("\x00")
	if err := k.Load(configText(text), yaml.Parser()); err != nil {
		return nil, invalid("configuration %s cannot be read: %w", path, err)
	}
	if line := secondDocument(text); line > 0 {
		return nil, invalid("configuration %s: line %d begins a second document, which would have no effect: remove the line ---", path, line)
	}
	if err := checkIntegers(path, text); err != nil {
		return nil, err
	}
	c := &Config{File: path, lines: linesOf(text)}
	if err := unmarshalStrict(k, c); err != nil {
		return nil, unknownKeys(path, text, err)
	}
	c.Defaults()
	c.DataDir = c.dataBeside()
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
	if err := c.validate(); err != nil {
		return nil, invalid("configuration %s: %s%w", path, atLine(c.lines, err.Error()), err)
	}
	return c, nil
}

// dataBeside is the data directory of a file: one configuration is one ledger, from
// wherever it is read (docs/decisions/0013). A path in the current directory stays
// as it is written.
func (c *Config) dataBeside() string {
	if filepath.Dir(c.File) == "." {
		return c.DataDir
	}
	return c.ResolvePath(c.DataDir)
}

// unmarshalStrict refuses unknown keys: a misspelt limit must not cost money.
func unmarshalStrict(k *koanf.Koanf, c *Config) error {
	return k.UnmarshalWithConf("", c, koanf.UnmarshalConf{
		Tag: "koanf",
		DecoderConfig: &mapstructure.DecoderConfig{
			Result: c, TagName: "koanf", ErrorUnused: true,
			MatchName:  func(key, field string) bool { return key == field }, // in one case: every other check reads keys so
			DecodeHook: exactly,
		},
	})
}

// Embedded is `perennial run` with nothing configured: an embedded NATS
// server and the sandbox, whose account is "main".
func Embedded() *Config {
	c := &Config{Embedded: true, Accounts: map[string]*Account{"main": {RatePerSecond: 200, Concurrency: 16}}}
	c.Defaults()
	return c
}

// Defaults fills in what the configuration leaves out, as the comments of the fields say.
func (c *Config) Defaults() {
	SetDefault(&c.DataDir, "perennial-data")
	SetDefault(&c.NATS.Listen, "127.0.0.1:4222")
	SetDefault(&c.HTTP.Listen, "127.0.0.1:8080")
	if c.Tracing.Sample == nil {
		c.Tracing.Sample = new(1.0)
	}
	for _, a := range c.Accounts {
		if a == nil {
			continue
		}
		SetDefault(&a.RatePerSecond, 5)
		SetDefault(&a.Concurrency, 8)
		SetDefault(&a.PollFloor, time.Second)
		SetDefault(&a.DailyLimitTimezone, "UTC")
		SetDefault(&a.ReconcileEvery, time.Hour)
		SetDefault(&a.Replicas, 1)
		SetDefault(&a.ListingLossPercent, schedules.DefaultLossPercent)
		SetDefault(&a.ListingLossMin, schedules.DefaultLossMin)
	}
	for i := range c.Schedules {
		SetDefault(&c.Schedules[i].Account, "main")
		SetDefault(&c.Schedules[i].Timezone, "UTC")
		SetDefault(&c.Schedules[i].Chunk, 100)
	}
	for i := range c.Webhooks {
		c.Webhooks[i].defaults()
	}
}

// SetDefault sets a field that has its zero value.
func SetDefault[T comparable](field *T, value T) {
	*field = cmp.Or(*field, value)
}

// validate names the field and the fix of the first thing wrong.
func (c *Config) validate() error {
	if len(c.Accounts) == 0 {
		return errors.New("accounts is empty: add at least one, such as accounts.main")
	}
	if c.NATS.URL != "" && c.NATS.Context != "" {
		return errors.New("nats.url and nats.context exclude each other: keep one")
	}
	if c.NATS.SyncAlways && !c.NATS.External() {
		return errors.New("nats.sync_always is said of nats.url or nats.context, and both are empty: leave it out")
	}
	if !c.NATS.External() {
		if err := queue.CheckListen(c.NATS.Listen); err != nil {
			return err
		}
	}
	seen := map[string]string{}
	for _, name := range c.AccountNames() {
		a := c.Accounts[name]
		if err := queue.ValidAccount(name); err != nil {
			return fmt.Errorf("accounts.%s: %w", name, err)
		}
		if a == nil {
			return fmt.Errorf("accounts.%s is empty: it needs base_url, app_id and a secret", name)
		}
		if err := a.Validate(); err != nil {
			return fmt.Errorf("accounts.%s.%w", name, err)
		}
		if other := seen[a.BaseURL+" "+a.AppID]; other != "" {
			return fmt.Errorf("accounts.%s and accounts.%s are the same key at the same address: keep one", other, name)
		}
		seen[a.BaseURL+" "+a.AppID] = name
	}
	for _, validate := range []func() error{c.validateProduction, c.validateUsers, c.validateIdentity, c.Tracing.validate, c.validateSchedules, c.validateWebhooks} {
		if err := validate(); err != nil {
			return err
		}
	}
	return nil
}

// Validate names the first field that is wrong, and the fix.
func (a *Account) Validate() (err error) {
	if err := upstream.CheckBaseURL(a.BaseURL); err != nil {
		return fmt.Errorf("base_url %w", err)
	}
	if a.CAFile != "" && !strings.HasPrefix(a.BaseURL, "https:") {
		return errors.New("ca_file is set, and base_url is no https address: leave ca_file out")
	}
	if _, err := upstream.EnvironmentOf(a.AppID); err != nil {
		return fmt.Errorf("app_id is %q and %w", a.AppID, err)
	}
	if a.RatePerSecond < 0 || a.Concurrency < 1 || a.Concurrency > 1024 || a.DailyLimitCents < 0 || a.Replicas < 1 {
		return errors.New("rate_per_second, concurrency (1 to 1024), daily_limit_cents and replicas must not be negative")
	}
	if a.ListingLossPercent < 1 || a.ListingLossPercent > 100 || a.ListingLossMin < 1 {
		return errors.New("listing_loss_percent must be 1 to 100, and listing_loss_min at least 1")
	}
	if err := schedules.CheckWarnBefore(a.WarnBefore); err != nil {
		return err
	}
	if a.Location, err = time.LoadLocation(a.DailyLimitTimezone); err != nil {
		return fmt.Errorf("daily_limit_timezone: %w", err)
	}
	return nil
}

// validateProduction refuses a production account on an embedded server without users:
// any client that can publish a command can spend money.
func (c *Config) validateProduction() error {
	if name := c.Production(); name != "" && !c.NATS.External() && len(c.NATS.Users) == 0 {
		return fmt.Errorf("accounts.%s is a production account and the embedded NATS server has no users: any client that can connect could spend its money. Set nats.users, or nats.url", name)
	}
	return nil
}

// Production is the first account that spends real money, "" when none does.
func (c *Config) Production() string {
	for _, name := range c.AccountNames() {
		if env, _ := upstream.EnvironmentOf(c.Accounts[name].AppID); env == upstream.Production {
			return name
		}
	}
	return ""
}

func (c *Config) validateSchedules() error {
	names := map[string]bool{}
	for i := range c.Schedules {
		s := &c.Schedules[i]
		if err := s.Validate(); err != nil {
			return fmt.Errorf("schedules[%d]: %w", i, err)
		}
		if c.Accounts[s.Account] == nil {
			return fmt.Errorf("schedules[%d].account is %q, which is not configured", i, s.Account)
		}
		if names[s.Name] {
			return fmt.Errorf("schedules[%d].name is %q, which appears twice", i, s.Name)
		}
		names[s.Name] = true
	}
	for _, name := range c.AccountNames() {
		if err := schedules.CheckRenames(c.SchedulesOf(name)); err != nil {
			return err
		}
	}
	return nil
}

// CheckLists refuses a schedule of the account ("" is all) whose list of proxies is not
// there. A run asks it before it starts; Load does not, since the commands with which an
// operator mends a sweep that cannot be made have to work without its list.
func (c *Config) CheckLists(account string) error {
	for i := range c.Schedules {
		if account != "" && c.Schedules[i].Account != account {
			continue
		}
		m := &c.Schedules[i].Match
		for _, name := range []string{m.ProxyIDsFile, m.ExceptProxyIDsFile} {
			if name != "" && !Exists(c.ResolvePath(name)) {
				why := fmt.Sprintf("schedules[%d].match: the list %s does not exist", i, c.ResolvePath(name))
				return invalid("configuration %s: %s%s", c.File, atLine(c.lines, why), why)
			}
		}
	}
	return nil
}

// AccountNames are the accounts, sorted.
func (c *Config) AccountNames() []string {
	return slices.Sorted(maps.Keys(c.Accounts))
}

// Pick is the account that a command means.
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

// LedgerPath is the file of an account's ledger.
func (c *Config) LedgerPath(account string) string {
	return filepath.Join(c.DataDir, account+".ledger.db")
}

// Exists reports whether a file or directory is there.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Client makes the account's API client. observe hears of each request; nil: nothing does.
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

// ReadRoots reads the certificates of a ca_file; nil, the system's, for none.
func ReadRoots(path string) (*x509.CertPool, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // as crypto/tls means it
	}
	text, err := files.Read(path, MaxConfigBytes, notOthers)
	if err != nil {
		return nil, invalid("ca_file %s cannot be read: %w", path, err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, invalid("ca_file %s has no certificate: it holds, as PEM, those of the authority that signed the provider's", path)
	}
	return roots, nil
}

// PickAll are those that a command looks at: the one that --account names, else
// all of the configuration.
func (c *Config) PickAll(named string) ([]string, error) {
	if named == "" && len(c.Accounts) > 1 {
		return c.AccountNames(), nil
	}
	account, err := c.Pick(named)
	return []string{account}, err
}
