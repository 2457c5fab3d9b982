package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/cluster"
	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/cmd/perennial/internal/journal"
	"perennial/cmd/perennial/internal/verbs"
	"perennial/cmd/perennial/internal/webhook"
	"perennial/jobs/decide"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/files"
	"perennial/ledger/sleep"
	"perennial/ledger/tables"
	"perennial/queue"
	"perennial/queue/embedded"
	"perennial/queue/events"
	"perennial/queue/lease"
	"perennial/queue/quota"
	"perennial/queue/roles"
	"perennial/queue/streams"
	"perennial/schedules"
	"perennial/schedules/plans"
	"perennial/upstream"
)

// DoctorFinding is the result of one check of `perennial doctor`, as in its JSON output.
type DoctorFinding struct {
	Account string `json:"account,omitempty"` // empty unless several accounts are checked
	Check   string `json:"check"`
	OK      bool   `json:"ok"`
	Seen    string `json:"seen"`
	Warning bool   `json:"warning,omitempty"` // a warning: the checked part works, but needs attention
	Do      string `json:"do,omitempty"`      // advice for a failure or a warning
}

// doctor checks everything that a run needs. It changes nothing.
type doctor struct {
	app      *app
	config   *config.Config
	account  string // the account being checked
	several  bool   // several accounts are checked
	findings []DoctorFinding

	providerAccount string // the account's id at the provider; "" if it was not read

	usersAt string // the NATS server whose users are checked; "" if no server was reached
}

func (a setupCommands) doctorCommand() *cobra.Command {
	return newCommand("doctor", "Check credentials, clock, NATS and disk", func(ctx context.Context, _ []string) error { return a.examine(ctx) })
}

func (a setupCommands) examine(ctx context.Context) error {
	c, accounts, err := a.selected()
	if err != nil {
		return err
	}
	d := &doctor{config: c}
	for _, account := range accounts {
		d.app, d.account, d.several = a.of(account), account, len(accounts) > 1
		d.provider(ctx)
		d.nats(ctx)
		d.disk(ctx)
		d.readiness(ctx)
		d.webhooks()
		d.lists()
	}
	d.account = ""
	d.roles(ctx, accounts)
	return d.report()
}

func (d *doctor) found(f DoctorFinding) {
	if d.several {
		f.Account = d.account
	}
	d.findings = append(d.findings, f)
}

func (d *doctor) ok(check, seen string, args ...any) {
	d.found(DoctorFinding{Check: check, OK: true, Seen: fmt.Sprintf(seen, args...)})
}

func (d *doctor) bad(check string, seen any, do string) {
	text, _, _ := strings.Cut(fmt.Sprint(seen), "\n") // the other lines are advice, which do replaces
	d.found(DoctorFinding{Check: check, Seen: text, Do: do})
}

// failed adds a finding for an error, and reports whether there was an error.
func (d *doctor) failed(check string, err error, do string) bool {
	if err != nil {
		d.bad(check, err, do)
	}
	return err != nil
}

func (d *doctor) warn(check, seen, do string) {
	d.found(DoctorFinding{Check: check, OK: true, Warning: true, Seen: seen, Do: do})
}

// listens checks an address that a stopped runner will need. It adds a warning if another
// program listens on the address. If the address is free, the finding is the text seen, unless
// seen is "".
func (d *doctor) listens(check, seen, key, address string) {
	listener, err := net.Listen("tcp", address) //nolint:noctx // closed again immediately
	if err == nil {
		err = listener.Close()
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE) && d.running():
		d.ok(check, "`perennial run` listens on %s", address)
	case errors.Is(err, syscall.EADDRINUSE):
		d.warn(check, strings.TrimPrefix(seen+"; another program listens on "+address, "; "), "stop that program, or set "+key+" to another address")
	case seen != "":
		d.ok(check, "%s", seen)
	}
}

// provider checks the provider and the key. It sends only GET requests, so it cannot find out
// whether the key may write.
func (d *doctor) provider(ctx context.Context) {
	client, err := d.app.provider()
	if d.config.Embedded && err != nil {
		d.ok("provider", "the embedded sandbox, and `perennial run` is not running")
		return
	}
	if d.failed("provider", err, "correct the configuration, or start `perennial run` for its sandbox") {
		return
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	began := time.Now()
	wallet, err := client.Wallet(ctx)
	refused, replied := errors.AsType[*upstream.Error](err)
	says, do := "", ""
	if err != nil && !replied {
		says, do = upstream.ProviderCertificate(err, time.Now())
	}
	switch {
	case errors.Is(err, upstream.CodeStaleTimestamp):
		d.bad("clock", err, "set this machine's clock by NTP")
	case replied && !errors.Is(err, upstream.CodeInsufficientScope):
		d.bad("signature", refused, refusedKey(refused))
	case says != "":
		d.bad("certificate", says, strings.Replace(do, "account.", "accounts."+d.account+".", 1))
	case err != nil && !replied:
		d.bad("provider", err, "check base_url and the network")
	default:
		d.ok("signature", "accepted for %s at %s", client.AppID(), client.BaseURL())
		if err == nil {
			d.clock(wallet.ServerTime, began)
			d.environment(client, wallet)
		}
		d.scopes(ctx, client, err)
	}
}

func refusedKey(err *upstream.Error) string {
	switch {
	case errors.Is(err, upstream.CodeAPIKeyRevoked):
		return "enable the key at the provider, or make another there: `perennial accounts rotate --app-id ID --secret-file FILE`, then start `perennial run` again"
	case errors.Is(err, upstream.CodeRateLimited):
		return "call this again later: the provider asks to wait"
	case err.Code == "":
		return "call this again: that is no answer of the API. Where it stays so, check base_url, and what is between here and the provider"
	}
	return "check app_id, the secret and base_url; sign_port if the provider signs its port; this machine's clock"
}

// skewAllowed is the largest clock skew that the doctor accepts. The provider rejects
// requests whose time is off by more than five minutes (customer-api.md, Limits).
const skewAllowed = time.Minute

func (d *doctor) clock(server, began time.Time) {
	skew := began.Add(time.Since(began) / 2).Sub(server).Round(time.Second)
	if skew.Abs() > skewAllowed {
		way := "ahead of"
		if skew < 0 {
			way = "behind"
		}
		d.bad("clock", fmt.Sprintf("%s %s the provider's", skew.Abs(), way), "set this machine's clock by NTP: over five minutes everything is refused")
		return
	}
	d.ok("clock", "%s from the provider's", skew.Abs())
}

func (d *doctor) environment(client *upstream.Client, w upstream.Wallet) {
	if w.Environment != client.Environment() || w.CashValue != (w.Environment == upstream.Production) {
		d.bad("environment", fmt.Sprintf("the wallet says %s, the App ID %s", w.Environment, client.Environment()), "check base_url and app_id: they belong together")
		return
	}
	d.ok("environment", "%s, wallet %s", w.Environment, money(w.BalanceCents, w.Currency))
}

// scopes checks each read permission of the key. wallet is the error from an earlier read of the
// wallet.
func (d *doctor) scopes(ctx context.Context, client *upstream.Client, wallet error) {
	one := upstream.PageRequest{Size: 1}
	reads := []struct {
		scope string
		read  func() error
	}{
		{"account:read", func() error {
			account, err := client.Account(ctx)
			d.providerAccount = account.AccountID
			if err == nil && account.Status != activeAccount {
				d.bad("account", "the provider says that it is "+printable(account.Status), "ask the provider why: it may refuse every order and renewal")
			}
			return err
		}},
		{"wallet:read", func() error { return wallet }},
		{"offers:read", func() error { _, err := client.OffersPage(ctx, upstream.OfferFilter{}, one); return err }},
		{"orders:read", func() error { _, err := client.OrdersPage(ctx, one); return err }},
		{"proxies:read", func() error { _, err := client.ProxiesPage(ctx, one); return err }},
	}
	for _, r := range reads {
		switch err := r.read(); {
		case err == nil:
			d.ok("scope "+r.scope, "granted")
		case errors.Is(err, upstream.CodeInsufficientScope):
			d.bad("scope "+r.scope, err, "give the key this permission, or let this machine's address use it")
		default:
			d.bad("scope "+r.scope, err, "call this again: the provider did not say whether the key may. Where it stays so, ask the provider, or look at what is between here and there")
		}
	}
	d.ok("scopes orders:write, proxies:write", "not asked: only a write would tell")
}

func (d *doctor) nats(ctx context.Context) {
	if n := d.config.Accounts[d.account].Replicas; n > 1 && !d.app.externalNATS(d.config) {
		d.bad("replicas", daemon.TooManyCopies(d.account, n), "set accounts."+d.account+".replicas to 1, or nats.url to the servers of a cluster")
	}
	r, err := d.app.connect()
	if err != nil {
		if !d.app.externalNATS(d.config) {
			d.listens("nats", "embedded, and `perennial run` is not running", "nats.listen", d.config.NATS.Listen)
			d.listens("http", "", "http.listen", d.config.HTTP.Listen)
			return
		}
		d.bad("nats", err, "start the NATS server, or correct nats.url and its credentials")
		return
	}
	defer r.Close()
	d.ok("nats", "connected to %s", r.URL())
	if most := r.JetStream().MaxPayload(); most < daemon.RequiredPayload {
		d.bad("max_payload", humanize.IBytes(uint64(most))+" on the NATS server", "set max_payload: 1MB or more: an event of "+humanize.IBytes(ledger.MaxFactBytes)+" could not be published, nor any after it")
	}
	external := d.config.NATS.External()
	if !d.jetstream(ctx, r.Queue, external) {
		return
	}
	d.failed("replicas", r.CheckReplicas(d.config.Accounts[d.account].Replicas), "set accounts."+d.account+".replicas to what the cluster has, or add servers: `perennial run` waits for them")
	d.streams(ctx, r.Queue, external)
	d.usersAt = r.URL()
	if external {
		d.runners(ctx, r.Queue)
		wanted := streams.Wanted{Account: d.account, Replicas: d.config.Accounts[d.account].Replicas}
		if limit, ok := errors.AsType[*quota.Error](wanted.CheckQuota(ctx, r.JetStream())); ok {
			d.bad("quota", limit.Limit+": "+limit.Seen, limit.Do)
		}
		d.durability(ctx, r.Queue)
	}
}

func (d *doctor) streams(ctx context.Context, q *queue.Queue, external bool) {
	switch err := (streams.Wanted{Account: d.account, Replicas: d.config.Accounts[d.account].Replicas, Embedded: !external}).Check(ctx, q.JetStream()); {
	case errors.Is(err, queue.ErrNoAccount):
		d.ok("streams", "not there yet: the first `perennial run` makes them")
	case streams.Unlike(err):
		d.bad("streams", err, "fix it: until then messages can be lost or are not delivered")
	case err != nil:
		d.bad("streams", err, "nothing is wrong with the stream's settings as far as is seen: see that most of the NATS servers run and have room, and call this again")
	default:
		d.ok("streams", "commands, events and dead letters are there, with settings that lose nothing")
		if external {
			d.failed("leases", lease.Check(ctx, q.JetStream()), "start `perennial run`, which makes it again, and keep others from deleting it")
		}
	}
}

func (d *doctor) jetstream(ctx context.Context, q *queue.Queue, external bool) bool {
	if external {
		d.ok("ingest", "no client can see it: max_buffered_msgs: %d in the server's jetstream block has one producer that does not wait for acknowledgements refused, before the others wait for it", embedded.MaxBufferedMessages)
	}
	// While a cluster elects its leader, it may respond as if it had no JetStream.
	if absent, ok := errors.AsType[*queue.AbsentError](queue.CheckPresent(ctx, q.JetStream())); ok && !q.JetStream().Clustered() {
		d.bad("jetstream", absent.Seen, absent.Do)
		return false
	}
	return !external || d.elected(ctx, q)
}

const electionWait = 8 * time.Second

// elected waits until JetStream responds, at most electionWait. A new cluster does not
// respond until it has elected its leader.
func (d *doctor) elected(ctx context.Context, q *queue.Queue) bool {
	limited, cancel := context.WithTimeout(ctx, electionWait)
	defer cancel()
	began := time.Now()
	err := queue.AwaitPresent(limited, q.JetStream(), func() {
		d.app.logger().Warnf("JetStream of %s does not answer yet, as while a cluster elects its leader: waiting %s at most", q.URL(), electionWait)
	})
	if err != nil {
		d.bad("jetstream", fmt.Sprintf("JetStream of %s has not answered for %s: %s", q.URL(), time.Since(began).Round(time.Second), err),
			"see that jetstream is enabled, that most of the NATS servers run and that they reach each other: without, they elect no leader, and nothing is stored")
	}
	return err == nil
}

func (d *doctor) runners(ctx context.Context, q *queue.Queue) {
	limited, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	all, err := cluster.Nodes(limited, q)
	if _, refused := errors.AsType[*queue.DeniedError](err); refused {
		d.ok("runners", "this login may not read what runners say of themselves")
		return
	}
	if d.failed("runners", err, "see that most of the NATS servers run, and call this again") {
		return
	}
	for i, n := range all { // the other accounts are compared in their own checks
		all[i].Accounts = slices.DeleteFunc(n.Accounts, func(x cluster.NodeAccount) bool { return x.Account != d.account })
	}
	all = slices.DeleteFunc(all, func(n cluster.Node) bool { return len(n.Accounts) == 0 })
	switch other := cluster.OtherSettings(all); {
	case len(other) > 0:
		d.bad("runners", other[0], cluster.OtherSettingsAdvice)
	case len(all) > 1:
		d.ok("runners", "%d, with the same settings and schedules", len(all))
	}
}

// diskWanted is the recommended free space, in bytes. Each renewal adds about 2 KB to the
// ledger and to the events stream.
const diskWanted = 1 << 30

func (d *doctor) report() error {
	wrong, account := 0, ""
	for _, f := range d.findings {
		mark, text := "ok", ""
		if f.Warning {
			mark = "warning"
		}
		if !f.OK {
			wrong++
			mark = "NOT OK"
		}
		if f.Account != account {
			if account, text = f.Account, "all accounts\n"; account != "" {
				text = "account " + account + "\n"
			}
		}
		text += fmt.Sprintf("%-7s %-36s %s\n", mark, f.Check, strings.ReplaceAll(f.Seen, "\n", " "))
		if f.Do != "" {
			text += fmt.Sprintf("%-7s %-36s -> %s\n", "", "", f.Do)
		}
		if err := d.app.say(f, "%s", text); err != nil {
			return err
		}
	}
	if wrong > 0 {
		return &exitError{ExitFailed, fmt.Errorf("%d of %d checks are not ok", wrong, len(d.findings))}
	}
	return nil
}

// webhooks checks that the secret of each webhook can be read. It sends nothing.
func (d *doctor) webhooks() {
	for _, w := range d.config.WebhooksOf(d.account) {
		check := "webhook " + w.Name
		if _, err := d.config.WebhookSecrets(w); err != nil {
			d.bad(check, err, "give it a secret: `echo whsec_$(openssl rand -base64 32)` makes one")
			continue
		}
		d.ok(check, "%s; its secret can be read, and `perennial webhooks test %s` tries it", webhook.Host(w.URL), w.Name)
	}
}

// endsPause maps the cause of a pause to advice on how to end the pause
// (docs/operations.md#the-account-is-paused).
var endsPause = map[string]string{
	string(upstream.CodeInvalidSignature):       "correct app_id or the secret, then start `perennial run` again",
	string(upstream.CodeAPIKeyRevoked):          "enable the key at the provider, or `perennial accounts rotate`, then start `perennial run` again",
	string(upstream.CodeInsufficientScope):      "give the key the permission at the provider, or ask why the account may not write; the pause then ends automatically",
	string(upstream.CodeStaleTimestamp):         "set this machine's clock by NTP; the pause then ends automatically",
	decide.CauseClock:                           "set this machine's clock by NTP; the pause then ends automatically",
	string(upstream.CodeIdempotencyKeyRequired): "find the gateway or proxy that removes headers, then `perennial accounts resume --reason TEXT`",
	decide.CauseFirewall:                        "correct base_url, or fix what is between here and the provider; the pause then ends automatically",
	ledger.CauseRestored:                        "compare what `perennial accounts show` names with the provider's lists before `perennial accounts resume --reason TEXT` (docs/operations.md#restore)",
	decide.CausePerson:                          "`perennial accounts resume --reason TEXT` when what it was paused for is done",
}

// pauses reports the pauses in the ledger. A pause that the provider requested is only a
// warning, because it ends automatically.
func (d *doctor) pauses(ctx context.Context, l *ledger.Ledger) {
	all, err := l.Operations.Pauses(ctx)
	if d.failed("paused", err, "run `perennial ledger verify`") {
		return
	}
	for _, p := range all {
		seen := printable(inspect.PausedSince(p))
		if p.Cause == decide.CauseThrottled {
			d.warn("paused", seen, "nothing: it ends automatically. Often: lower rate_per_second")
			continue
		}
		do := endsPause[p.Cause]
		if do == "" {
			do = "see `perennial accounts show`"
		}
		d.bad("paused", seen, do)
	}
}

func (d *doctor) running() bool {
	_, err := readRunFile(d.config.DataDir)
	return err == nil
}

// readiness reports the checks of the running process that fail. If none runs here, it reports
// nothing. Pauses have a check of their own.
func (d *doctor) readiness(ctx context.Context) {
	v, err := readReadiness(ctx, d.config.DataDir)
	if err != nil {
		return
	}
	for name, detail := range v.Failing(d.account) {
		if name != "paused" {
			d.bad("ready: "+name, detail, "see PerennialNotReady in docs/runbook.md")
		}
	}
}

func (d *doctor) disk(ctx context.Context) {
	dir := d.config.DataDir
	for !config.Exists(dir) && filepath.Dir(dir) != dir {
		dir = filepath.Dir(dir)
	}
	if dir == d.config.DataDir {
		d.failed("data_dir", files.CheckOwn(dir), "chmod go-w "+dir+": `perennial run` does not start with it")
	}
	free, err := files.Free(dir)
	if d.failed("disk", err, "choose a data_dir that exists, or can be made") {
		return
	}
	if probe, err := os.CreateTemp(dir, ".doctor-*"); err != nil {
		d.bad("disk", err, "let this user write to "+dir)
	} else {
		_ = probe.Close()
		_ = os.Remove(probe.Name())
		if free < diskWanted {
			d.bad("disk", fmt.Sprintf("%s free in %s, less than %s", humanize.IBytes(uint64(free)), dir, humanize.IBytes(diskWanted)), "make room: nothing is sent when the ledger cannot be written")
		} else {
			d.ok("disk", "%s free in %s", humanize.IBytes(uint64(free)), dir)
		}
	}
	d.ledgerFile(ctx)
}

func (d *doctor) ledgerFile(ctx context.Context) {
	path := d.config.LedgerPath(d.account)
	l, err := ledger.Open(ctx, ledger.Config{Path: path, Clock: time.Now, ReadOnly: true})
	if errors.Is(err, fs.ErrNotExist) {
		d.noLedger(ctx, path)
		return
	}
	if damaged, ok := errors.AsType[*ledger.DamagedError](err); ok {
		d.bad("ledger", damaged.Err, damaged.Error())
		return
	}
	if d.failed("ledger", err, "if the disk is NOT OK, fix that first; otherwise run `perennial ledger verify`, and restore a backup if it does not hold") {
		return
	}
	defer func() { _ = l.Close() }()
	seq, _, err := l.Head(ctx)
	if d.failed("ledger", err, "run `perennial ledger verify`") {
		return
	}
	if bound, err := l.Binding(ctx); err == nil && d.providerAccount != "" && bound.AccountID != d.providerAccount {
		d.bad("ledger", fmt.Sprintf("it belongs to account %s at %s, and the credentials to %s", bound.AccountID, bound.BaseURL, d.providerAccount), "use the old credentials, or another data_dir: `perennial run` refuses this ledger")
		return
	}
	d.ok("ledger", "%s journal rows; `perennial ledger verify` proves them", humanize.Comma(seq))
	d.published(ctx, l)
	d.pauses(ctx, l)
	d.schedules(ctx, l)
}

// published reports a loss of events: according to the ledger they are on the events stream, but
// the stream lacks them. Without this check, a lost or recreated stream would look like a first
// start.
func (d *doctor) published(ctx context.Context, l *ledger.Ledger) {
	noted, err := l.Published(ctx)
	if d.failed("events", err, "run `perennial ledger verify`") {
		return
	}
	last, err := d.lastEvent(ctx)
	if err != nil { // the check of NATS reports this error
		return
	}
	if why := journal.HeldFromNote(noted).Missing(last); why != "" {
		d.bad("events", why, journal.RefillAdvice)
	}
}

// noLedger reports a missing ledger file. If the account's stream is empty, no runner was
// ever started. If an embedded server has events, the file was lost. On an external NATS,
// another runner may have published the events.
func (d *doctor) noLedger(ctx context.Context, path string) {
	const do = "put the original file back, or stop the runner if there is one and rebuild the ledger with `perennial backup restore --from-events`"
	last, err := d.lastEvent(ctx)
	switch {
	case err != nil:
		d.bad("ledger", path+" is not there, and whether events were published from it could not be read: "+err.Error(), "first fix what is reported about nats; then "+do)
	case last > 0 && d.config.NATS.External():
		d.ok("ledger", "not there: `perennial run` makes it from the %s rows on the events stream, and follows", humanize.Comma(int64(last)))
	case last > 0:
		d.bad("ledger", fmt.Sprintf("%s is not there, and %s rows of it are on the events stream", path, humanize.Comma(int64(last))), do)
	default:
		d.ok("ledger", "not there yet: the first `perennial run` makes it")
	}
}

func (d *doctor) lastEvent(ctx context.Context) (uint64, error) {
	if !d.app.externalNATS(d.config) && !config.Exists(filepath.Join(d.config.DataDir, "nats")) {
		return 0, nil
	}
	h, err := d.app.openHistory(d.config, d.account)
	if err != nil {
		return 0, err
	}
	defer h.close()
	last, _, err := events.Of(h.queue.JetStream(), d.account).Last(ctx)
	if errors.Is(err, queue.ErrNoAccount) {
		err = nil
	}
	return last.Seq, err
}

// A replica may lag briefly while it receives writes. The doctor therefore reports a lag only if
// every look shows one.
const (
	copiesLooks = 3
	copiesEvery = 500 * time.Millisecond
)

// durability reports a failure if a single server has the only replica, unless nats.sync_always
// says that the server syncs every write. It also reports streams with fewer replicas than the
// account requires. A lagging replica is only a warning, because the other replicas have the
// acknowledged writes.
func (d *doctor) durability(ctx context.Context, q *queue.Queue) {
	want := d.config.Accounts[d.account].Replicas
	all, err := lookAtCopies(ctx, q, d.account)
	if d.failed("durability", err, "start the NATS servers: a stream whose servers do not answer stores nothing") {
		return
	}
	var single, few, edits, behind []string
	least := want
	for _, c := range all {
		least = min(least, c.Number)
		if c.Number == 1 {
			single = append(single, c.Stream)
		}
		if c.Number < want {
			few = append(few, fmt.Sprintf("%s has %d of %d copies", c.Stream, c.Number, want))
			edits = append(edits, fmt.Sprintf("`nats stream edit %s --replicas %d`", c.Stream, want))
		}
		for _, b := range c.Behind {
			behind = append(behind, c.Stream+": "+b)
		}
	}
	alone := want == 1 && (len(all) == 0 || len(single) > 0)
	switch {
	case len(few) > 0:
		d.bad("durability", strings.Join(few, "; "), strings.Join(edits, ", "))
	case alone && !d.config.NATS.SyncAlways:
		d.bad("durability", d.oneCopy(q, single), "run three servers and set accounts."+d.account+".replicas: 3 (streams that are there: `nats stream edit NAME --replicas 3`); "+
			"or set sync_interval: always in the server's jetstream block, and then nats.sync_always: true here")
	case len(behind) > 0:
		d.warn("durability", strings.Join(behind, "; "), "see that these servers work: until they have caught up, the loss of another one may stop the account")
	case alone:
		d.ok("durability", "one copy, and according to nats.sync_always the server syncs every write, which no client can check: a power cut loses nothing, a lost disk loses everything")
	default:
		cut := "loses what they had not synced"
		if d.config.NATS.SyncAlways {
			cut = "loses nothing if each of them syncs every write, as nats.sync_always says"
		}
		d.ok("durability", "%s, each up to date: a lost server loses nothing; a power cut of all servers at once %s", countCopies(all, least), cut)
	}
}

func countCopies(all []streams.Copies, least int) string {
	if len(all) == 0 {
		return fmt.Sprintf("%d copies of each stream, which the first `perennial run` makes", least)
	}
	for _, c := range all { // some streams have more replicas than required
		least = max(least, c.Number)
	}
	return fmt.Sprintf("%d copies of %d streams", least, len(all))
}

func (d *doctor) oneCopy(q *queue.Queue, streams []string) string {
	what, where := strings.Join(streams, ", "), "a single server"
	if what == "" {
		what = "each stream, as the first `perennial run` makes it"
	}
	if q.JetStream().Clustered() {
		where = "one server of the cluster"
	}
	return fmt.Sprintf("%s: one copy, on %s at %s. A power cut loses what it has acknowledged and not synced, by default of two minutes, and a lost disk all", what, where, q.URL())
}

// lookAtCopies reads the state of the replicas until none lags, at most copiesLooks times.
// It returns the last state.
func lookAtCopies(ctx context.Context, q *queue.Queue, account string) (all []streams.Copies, err error) {
	for look := range copiesLooks {
		if look > 0 {
			if err := sleep.For(ctx, copiesEvery); err != nil {
				return nil, err
			}
		}
		if all, err = streams.CopiesOf(ctx, q.JetStream(), account); err != nil {
			return nil, err
		}
		behind := 0
		for _, c := range all {
			behind += len(c.Behind)
		}
		if behind == 0 {
			break
		}
	}
	return all, nil
}

// rolesTimeout limits the checks of one user for one account.
const rolesTimeout = 10 * time.Second

const mendRoles = "give the NATS server the users and accounts that `perennial nats-config` prints, and no other permissions"

// roles checks each configured user whose login is available. It connects as the user, and
// compares the permissions on the server with the user's roles. It tries only service requests
// that are read-only, in case the user has too many permissions.
func (d *doctor) roles(ctx context.Context, accounts []string) {
	if d.usersAt == "" || len(d.config.NATS.Users) == 0 {
		return
	}
	users, err := d.config.NATSUsers()
	if d.failed("roles", err, "correct the password file") {
		return
	}
	separate, tried, untried := true, 0, []string{}
	for i, u := range users {
		configured := d.config.NATS.Users[i]
		if configured.Password != "" {
			untried = append(untried, "user "+u.Name+", of whom a hash is here")
			continue
		}
		target := queue.ConnectConfig{URL: d.usersAt, User: u.Name, Password: u.Password}
		if configured.CredsFile != "" {
			target = queue.ConnectConfig{URL: d.usersAt, CredsFile: d.config.ResolvePath(configured.CredsFile)}
		}
		wrong, not, err := d.separation(ctx, target, u, accounts)
		if err != nil {
			wrong = []string{err.Error()}
		}
		for _, w := range wrong {
			d.bad("roles", fmt.Sprintf("user %s %s", u.Name, w), mendRoles)
			separate = false
		}
		tried++
		for _, n := range not {
			untried = append(untried, n+" as "+u.Name)
		}
	}
	if tried > 0 && d.letsAnyoneIn(d.usersAt) {
		d.bad("roles", "the NATS server lets in a client without a login", "take no_auth_user out of its configuration, and give each user a login")
		separate = false
	}
	if separate && tried > 0 {
		more := ""
		if len(untried) > 0 {
			more = "; not tried, where no runner answers or no login is here: " + strings.Join(untried, ", ")
		}
		d.ok("roles", "%d users tried: accounts, permissions, consumers and names are as their roles say; what no client sees is not tried: "+
			"mappings, further imports and logins, limits%s", tried, more)
	}
}

// quietly returns settings for a connection that logs nothing, because the check expects
// refusals.
func quietly(target queue.ConnectConfig) (queue.ConnectConfig, error) {
	at, err := url.Parse(target.URL)
	if err != nil {
		return target, err
	}
	at.User = nil // removes the CLI's own login
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	target.URL, target.Log, target.Name = at.String(), quiet, "perennial-doctor"
	return target, nil
}

func (d *doctor) letsAnyoneIn(address string) bool {
	target, err := quietly(queue.ConnectConfig{URL: address})
	return err == nil && queue.LetsIn(target)
}

// separation connects as one user. It tries what the user's roles permit, and what they forbid.
func (d *doctor) separation(ctx context.Context, target queue.ConnectConfig, u roles.User, accounts []string) (wrong, untried []string, err error) {
	if target, err = quietly(target); err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, rolesTimeout*time.Duration(len(accounts)))
	defer cancel()
	q, err := queue.Connect(target)
	if err != nil {
		return nil, nil, err
	}
	defer q.Close()
	return roles.Separation(ctx, q.JetStream(), u, verbs.Served(), accounts)
}

const uncoveredNamed = 5

func (d *doctor) lists() {
	d.failed("lists", d.config.CheckLists(d.account), "put the list where the configuration says: runs that need it fail, and `perennial run` does not start without it")
}

// schedules adds findings about schedules that match no proxy, and about proxies that no
// schedule matches.
func (d *doctor) schedules(ctx context.Context, l *ledger.Ledger) {
	own := d.config.SchedulesOf(d.account)
	d.removed(ctx, l, own)
	d.slots(ctx, l, own)
	if d.config.CheckLists(d.account) != nil { // lists reports the missing list
		return
	}
	if last, err := l.Fleet.Listing(ctx); err == nil && last.Finished.IsZero() {
		d.warn("schedules", "no listing of the proxies has ended yet, so what no schedule renews is not known", "look again after the first listing of the runner that leads (`perennial runners`)")
		return
	}
	for _, s := range own {
		none, err := schedules.MatchesNone(ctx, l.Fleet, s, d.config.ReadListFile)
		if d.failed("schedule "+s.Name, err, "put the list where the configuration says") {
			return
		}
		if none != "" {
			d.bad("schedule "+s.Name, none, "compare its match with `perennial proxies list`")
		}
	}
	count, named := 0, []string{}
	err := schedules.Uncovered(ctx, l.Fleet, time.Now(), own, d.config.ReadListFile, func(p tables.Proxy) error {
		if count++; count <= uncoveredNamed {
			named = append(named, printable(p.ProxyID))
		}
		return nil
	})
	switch {
	case err != nil:
		d.bad("schedules", err, "run `perennial ledger verify`")
	case count == 0 && len(own) == 0:
		d.ok("schedules", "none, and no living proxy was listed")
	case count == 0:
		d.ok("schedules", "%d, which cover every living proxy that was listed", len(own))
	case len(own) == 0:
		d.warn("schedules", fmt.Sprintf("none is configured: %s will not be renewed, such as %s", english.Plural(count, "living proxy", "living proxies"), strings.Join(named, ", ")),
			"see `perennial proxies list --uncovered`, and add a schedule")
	default: // only a warning, because the operator may want this
		d.warn("schedules", fmt.Sprintf("%s in no schedule and will not be renewed, such as %s", english.Plural(count, "living proxy is", "living proxies are"), strings.Join(named, ", ")),
			"see `perennial proxies list --uncovered`, and widen a schedule's match, or retire them")
	}
}

func (d *doctor) slots(ctx context.Context, l *ledger.Ledger, own []plans.Schedule) {
	for _, s := range own {
		if late := s.Late(time.Now()); late != "" {
			d.warn("schedule "+s.Name, late, "lengthen renew_before, or run more often")
		}
		if silent, err := schedules.Silent(ctx, l, time.Now(), s); err == nil && silent != "" {
			d.warn("schedule "+s.Name, silent, "start `perennial run`; where it runs, `/readyz` and `perennial schedules list` say what is in the way")
		}
	}
}

func (d *doctor) removed(ctx context.Context, l *ledger.Ledger, own []plans.Schedule) {
	all, err := schedules.RemovedOf(ctx, l, time.Now(), own)
	d.failed("schedules", err, "run `perennial ledger verify`")
	for _, x := range all {
		d.warn("schedule "+x.Schedule, x.Text, x.Advice)
	}
}
