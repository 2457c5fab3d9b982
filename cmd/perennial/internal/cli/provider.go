package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs"
	"perennial/ledger"
	"perennial/ledger/tables"
	"perennial/schedules"
	"perennial/schedules/plans"
	"perennial/upstream"
	"perennial/upstream/sandbox"
)

// provider returns the account's API client with the configured credentials. If no provider
// is configured, the client uses the runner's sandbox.
func (a *app) provider() (*upstream.Client, error) {
	c, name, err := a.configured()
	if err != nil {
		return nil, err
	}
	account := c.Accounts[name]
	if c.Embedded {
		line, err := readRunFile(c.DataDir)
		if err != nil {
			return nil, err
		}
		account.BaseURL, account.AppID, account.Secret = line.Sandbox, sandbox.DemoSandboxAppID, sandbox.DemoSandboxSecret
	}
	secret, err := c.SecretOf(name)
	if err != nil {
		return nil, err
	}
	return c.Client(name, secret, time.Now, nil)
}

// asking returns an action that calls the function do with an API client. If the provider does
// not reply, the process exits with ExitUnreachable.
func (a *app) asking(do func(ctx context.Context, client *upstream.Client, args []string) error) action {
	return func(ctx context.Context, args []string) error {
		client, err := a.provider()
		if err != nil {
			return err
		}
		defer client.Close()
		err = do(ctx, client, args)
		if _, lost := errors.AsType[*upstream.TransportError](err); lost {
			return fmt.Errorf("%w: %w", errUnreachable, err)
		}
		return err
	}
}

func (a providerCommands) walletCommand() *cobra.Command {
	show := newCommand("show", "Show the provider's wallet balance", func(ctx context.Context, _ []string) error {
		return a.eachAccount(ctx, func(one *app, account string) error {
			return one.asking(func(ctx context.Context, client *upstream.Client, _ []string) error {
				w, err := client.Wallet(ctx)
				if err != nil {
					return err
				}
				return a.printWallet(account, w)
			})(ctx, nil)
		})
	})
	show.Aliases = []string{"list", "ls"}
	return noun(&cobra.Command{Use: "wallet", Short: show.Short}, show)
}

// printWallet prints a wallet. account is "" if only one account is selected.
func (a providerCommands) printWallet(account string, w upstream.Wallet) error {
	if a.output == "json" {
		return a.printOf(account, map[string]any{
			"environment": w.Environment, "currency": w.Currency, "balance_cents": w.BalanceCents, "frozen_cents": w.FrozenCents, "cash_value": w.CashValue,
		})
	}
	return a.table([]string{"WALLET", account}, [][]string{
		{"balance", money(w.BalanceCents, w.Currency)}, {"frozen", money(w.FrozenCents, w.Currency) + "  (the provider does not say whether it is part of the balance)"}, {"environment", string(w.Environment)}, {"real money", strconv.FormatBool(w.CashValue)},
	})
}

func (a providerCommands) offersCommand() *cobra.Command {
	var f upstream.OfferFilter
	c := newCommand("list", "List offers and prices", a.asking(func(ctx context.Context, client *upstream.Client, _ []string) error {
		list := a.listing("no offers match", "OFFER", "COUNTRY", "REGION", "LINE", "TYPE", "PROTOCOL", "PRICE", "DAYS", "CIDRS", "NAME")
		currency := a.currencyOf(ctx, client)
		for o, err := range client.Offers(ctx, f, 0) {
			if err != nil {
				return list.end(err)
			}
			list.add("", offerLine(o), o.OfferCode, o.CountryCode, o.Region, o.LineName, o.IPType, o.Protocol,
				moneyOrUnknown(o.UnitPriceCents, currency), strings.ReplaceAll(strings.Trim(fmt.Sprint(o.DurationDays), "[]"), " ", ", "), daemon.FirstFew(o.CIDRs), o.Name)
		}
		return list.end(nil)
	}))
	flags := c.Flags()
	flags.StringVar(&f.CountryCode, "country", "", "only this country code")
	flags.StringVar(&f.Region, "region", "", "only this region")
	flags.StringVar(&f.Line, "line", "", "only this product line")
	flags.StringVar(&f.IPType, "ip-type", "", "only this IP type")
	wholeVar(flags, &f.Quantity, "quantity", 0, "prices for this many proxies")
	wholeVar(flags, &f.DurationDays, "days", 0, "prices for this duration in days")
	return noun(&cobra.Command{Use: "offers", Aliases: []string{"offer"}, Short: c.Short}, c)
}

func offerLine(o upstream.Offer) map[string]any {
	return map[string]any{
		"offer_code": o.OfferCode, "name": o.Name, "country_code": o.CountryCode, "region": o.Region, "line_name": o.LineName, "ip_type": o.IPType,
		"protocol": o.Protocol, "unit_price_cents": o.UnitPriceCents, "base_duration_days": o.BaseDurationDays, "duration_days": o.DurationDays,
		"max_quantity": o.MaxQuantity, "cidrs": o.CIDRs,
	}
}

// currencyOf returns the account's currency for a table, from the ledger or else the wallet.
// If neither is readable, it returns "", and prices are shown without a currency.
func (a *app) currencyOf(ctx context.Context, client *upstream.Client) string {
	if a.output == "json" {
		return ""
	}
	if l, _, err := a.openLedger(ctx); err == nil {
		defer func() { _ = l.Close() }()
		if currency, err := l.Currency(ctx); err == nil && currency != "" {
			return currency
		}
	}
	w, _ := client.Wallet(ctx)
	return w.Currency
}

func (a providerCommands) ordersCommand() *cobra.Command {
	short := "List the provider's orders, including those made elsewhere"
	return noun(&cobra.Command{Use: "orders", Short: short}, newCommand("list", short, a.asking(func(ctx context.Context, client *upstream.Client, _ []string) error {
		list := a.listing("no orders", "ORDER", "STATUS", "TOTAL", "CREATED")
		for o, err := range client.Orders(ctx, 0) {
			if err != nil {
				return list.end(err)
			}
			record := map[string]any{
				"order_no": o.OrderNo, "status": o.Status, "total_cents": o.TotalCents, "currency": o.Currency, "created_at": instantOrNil(&o.CreatedAt),
			}
			list.add("", record, o.OrderNo, o.Status, moneyOrUnknown(o.TotalCents, o.Currency), stamp(&o.CreatedAt))
		}
		return list.end(nil)
	})), a.ordersGet())
}

// ordersGet returns the command that shows an order in full, without the credentials of its
// proxies.
func (a providerCommands) ordersGet() *cobra.Command {
	return newCommand("get ORDER_NO", "Show the provider's current data for an order", a.asking(func(ctx context.Context, client *upstream.Client, args []string) error {
		o, err := client.Order(ctx, args[0])
		if err != nil {
			return unknownThere("order", args[0], err)
		}
		ids := make([]string, 0, len(o.Proxies))
		for _, p := range o.Proxies {
			ids = append(ids, p.ProxyID)
		}
		rows := [][]string{
			{"status", o.Status}, {"payment", o.PaymentStatus}, {"total", moneyOrUnknown(o.TotalCents, o.Currency)}, {"created", stamp(&o.CreatedAt)},
			{"delivered", fmt.Sprintf("%d of %d, complete %t, available %t", o.Delivery.DeliveredCount, o.Delivery.ExpectedCount, o.Delivery.Complete, o.Delivery.Available)},
			{"read again", pollText(o.PollAfterSeconds)}, {"trace id", o.TraceID},
		}
		if r := o.Refund; r != nil {
			rows = append(rows, []string{"refund", fmt.Sprintf("%s to %s, status %s, at %s", moneyOrUnknown(r.AmountCents, r.Currency), r.Destination, r.Status, stamp(r.RefundedAt))})
		}
		for _, id := range ids {
			rows = append(rows, []string{"proxy", id})
		}
		return a.printTable(orderObject(o, ids), []string{"ORDER", o.OrderNo}, rows)
	}))
}

func pollText(seconds *int64) string {
	if seconds == nil {
		return "no more"
	}
	return fmt.Sprintf("after %d s", *seconds)
}

func orderObject(o upstream.Order, ids []string) map[string]any {
	object := map[string]any{
		"order_no": o.OrderNo, "status": o.Status, "payment_status": o.PaymentStatus, "currency": o.Currency, "subtotal_cents": o.SubtotalCents,
		"total_cents": o.TotalCents, "created_at": instantOrNil(&o.CreatedAt), "poll_after_seconds": o.PollAfterSeconds, "proxy_ids": ids, "trace_id": o.TraceID,
		"delivery": map[string]any{
			"expected_count": o.Delivery.ExpectedCount, "delivered_count": o.Delivery.DeliveredCount, "complete": o.Delivery.Complete, "available": o.Delivery.Available,
		},
		"refund": nil,
	}
	if r := o.Refund; r != nil {
		object["refund"] = map[string]any{
			"status": r.Status, "destination": r.Destination, "amount_cents": r.AmountCents, "currency": r.Currency, "refunded_at": r.RefundedAt,
		}
	}
	return object
}

func (a providerCommands) proxiesCommand() *cobra.Command {
	return noun(&cobra.Command{Use: "proxies", Aliases: []string{"proxy"}, Short: "List, show and retire proxies"},
		a.proxiesList(), a.proxiesGet(), a.proxiesRetire())
}

func (a providerCommands) proxiesList() *cobra.Command {
	var within time.Duration
	var live, uncovered bool
	var query proxiesQuery
	c := newCommand("list", "List proxies by expiry", func(ctx context.Context, _ []string) error {
		list := a.listing("no proxies match", "PROXY", "STATUS", "EXPIRES", "COUNTRY", "REGION", "LINE", "TYPE", "LAST SEEN")
		if live && uncovered {
			return usage("--live and --uncovered exclude each other: what schedules cover is known of listed proxies")
		}
		if err := query.check(live, uncovered); err != nil {
			return err
		}
		if live {
			return list.end(a.listLive(ctx, list))
		}
		query.Until = always
		if within > 0 {
			query.Until = time.Now().Add(within)
		}
		return a.listKnown(ctx, list, query, uncovered)
	})
	c.Flags().Var(span{&within}, "within", "only proxies that expire within this time, such as 3d or 72h")
	c.Flags().BoolVar(&live, "live", false, "read the provider's list now, instead of the last stored listing")
	c.Flags().BoolVar(&uncovered, "uncovered", false, "only proxies that no schedule matches, or whose expiry is not known")
	query.addFlags(c)
	return c
}

func (a providerCommands) listLive(ctx context.Context, list *listing) error {
	return a.eachAccount(ctx, func(one *app, account string) error {
		return one.asking(func(ctx context.Context, client *upstream.Client, _ []string) error {
			for p, err := range client.Proxies(ctx, 0) {
				if err != nil {
					return err
				}
				addProxy(list, account, jobs.Observed(p, time.Now().UTC()))
			}
			return nil
		})(ctx, nil)
	})
}

func addProxy(list *listing, account string, p tables.Proxy) {
	expires, status := stamp(p.ExpiresAt), p.Status
	switch {
	case p.ExpectedExpiresAt != nil:
		expires = p.ExpectedExpiresAt.UTC().Format(time.DateOnly) + " · expected"
	case p.Unread() && expires != "":
		expires += " · unconfirmed"
	case expires == "":
		expires = "not known"
	}
	list.add(account, verbs.Listed(p), p.ProxyID, joined(", ", status, printable(p.Remarks())), expires, p.CountryCode, p.Region, p.LineName, p.IPType, seen(p))
}

func (a providerCommands) proxiesGet() *cobra.Command {
	var reveal bool
	c := newCommand("get ID…", "Show the provider's current data for proxies, and whether each is renewed, and why", a.asking(func(ctx context.Context, client *upstream.Client, args []string) error {
		for i, id := range args {
			if i > 0 && a.output != "json" {
				fmt.Fprintln(a.stdout)
			}
			if err := a.proxyGet(ctx, client, id, reveal); err != nil {
				return err
			}
		}
		return nil
	}))
	c.Flags().BoolVar(&reveal, "reveal", false, "also read the credentials, and print them once; they are not stored")
	return c
}

// unknownThere converts the provider's not-found error to a sentence. It returns any other
// error unchanged.
func unknownThere(kind, id string, err error) error {
	refused, ok := errors.AsType[*upstream.Error](err)
	if !ok || refused.Code != upstream.CodeOrderNotFound && refused.Code != upstream.CodeProxyNotFound {
		return err
	}
	return fmt.Errorf("the provider has no %s %q (%s, trace_id %s)", kind, id, string(refused.Code), refused.TraceID)
}

func (a providerCommands) proxyGet(ctx context.Context, client *upstream.Client, id string, reveal bool) error {
	p, err := client.Proxy(ctx, id)
	if err != nil {
		return unknownThere("proxy", id, err)
	}
	facts := [][2]string{
		{"proxy_id", p.ProxyID}, {"status", p.Status}, {"ip_type", p.IPType}, {"protocol", p.Protocol}, {"country_code", p.CountryCode},
		{"region", p.Region}, {"line_name", p.LineName}, {"starts_at", stamp(p.StartsAt)}, {"expires_at", stamp(p.ExpiresAt)},
	}
	if reveal {
		secret, err := client.Reveal(ctx, id)
		if err != nil {
			return err
		}
		facts = append(facts, [2]string{"host", secret.Host()}, [2]string{"port", secret.Port()}, [2]string{"username", secret.Username()},
			[2]string{"password", secret.Password()}, [2]string{"socks5_uri", secret.SOCKS5URI()}, [2]string{"connection", secret.Connection()})
		return a.printFacts(facts)
	}
	return a.printFacts(append(facts, a.outlookOf(ctx, id)...))
}

// outlookOf returns what the runner knows about a proxy's renewals, as names and texts.
func (a providerCommands) outlookOf(ctx context.Context, id string) [][2]string {
	v, answered, err := askRunning(ctx, a.app, verbs.Proxy, verbs.ProxyRequest{ProxyID: id})
	switch {
	case err != nil:
		return [][2]string{{"renewal", "not known: " + err.Error()}}
	case !answered:
		return [][2]string{{"renewal", "not known: no runner of the account answers"}}
	}
	facts := [][2]string{{"renewal", v.Outlook.Text}, {"last_run", v.Outlook.LastRun}, {"schedule", v.Outlook.Schedule}, {"next_sweep", stamp(v.Outlook.At)}, {"operation", v.Outlook.OperationID}}
	if len(v.Renewals) > 0 {
		last := v.Renewals[0]
		at := last.AcceptedAt
		if last.SettledAt != nil {
			at = *last.SettledAt
		}
		cost := money(last.ChargedCents-last.RefundedCents, v.Currency)
		if last.Open && last.ChargedCents == 0 {
			cost = "unknown"
		}
		facts = append(facts, [2]string{"last_renewal", fmt.Sprintf("%s at %s by %s, cost %s", last.State, stamp(&at), last.CommandID, cost)})
	}
	return slices.DeleteFunc(append(facts, [2]string{"bought_by", v.BoughtBy}), func(f [2]string) bool { return f[1] == "" })
}

func (a providerCommands) printFacts(facts [][2]string) error {
	if a.output == "json" {
		object := map[string]string{}
		for _, f := range facts {
			object[f[0]] = f[1]
		}
		return printJSON(a.stdout, object)
	}
	rows := make([][]string, 0, len(facts))
	for _, f := range facts {
		rows = append(rows, []string{strings.ReplaceAll(f[0], "_", " "), f[1]})
	}
	return a.table(rows[0], rows[1:])
}

func stamp(at *time.Time) string {
	if at == nil || at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

func instantOrNil(at *time.Time) any {
	if at.IsZero() {
		return nil
	}
	return at.UTC()
}

type proxiesQuery struct {
	tables.ProxiesQuery

	label, schedule, state string
}

func (q *proxiesQuery) addFlags(c *cobra.Command) {
	c.Flags().StringVar(&q.ID, "id", "", "only proxies whose id contains this text")
	c.Flags().StringVar(&q.Country, "country", "", "only proxies with this country code")
	c.Flags().StringVar(&q.label, "label", "", "only proxies whose order had this label, such as team=shop")
	c.Flags().StringVar(&q.schedule, "schedule", "", "only proxies that this schedule renews")
	c.Flags().StringVar(&q.state, "state", "", "only proxies in this state: "+strings.Join(plans.ProxyStates, ", "))
}

func (q *proxiesQuery) filters() bool {
	return q.ID != "" || q.Country != "" || q.label != "" || q.schedule != "" || q.state != ""
}

func (q *proxiesQuery) check(live, uncovered bool) error {
	q.Limit = proxiesRead
	if (live || uncovered) && q.filters() {
		return usage("--live and --uncovered take no filters, such as --id or --within: use one or the other")
	}
	var named bool
	if q.Name, q.Value, named = strings.Cut(q.label, "="); q.label != "" && (!named || q.Name == "") {
		return usage("--label: %q has no name and value. Write it as team=shop.", q.label)
	}
	if q.state != "" && !slices.Contains(plans.ProxyStates, q.state) {
		return usage("--state: %q is not a state of a proxy. Use one of: %s.", q.state, strings.Join(plans.ProxyStates, ", "))
	}
	return nil
}

const proxiesRead = 2000

// always is the end of a list without --within. Only such a list has proxies without an expiry.
var always = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

func (q *proxiesQuery) each(ctx context.Context, l *ledger.Ledger, c *plans.Coverage, yield func(tables.Proxy) error) error {
	for query := q.ProxiesQuery; ; {
		page, err := l.Fleet.ProxiesPage(ctx, query)
		for _, p := range page.Proxies {
			s, _ := c.Of(p.Proxy)
			if err == nil && (q.schedule == "" || s.Name == q.schedule) && (q.state == "" || c.State(p, time.Now()) == q.state) {
				err = yield(p.Proxy)
			}
		}
		if query.After = page.Next; err != nil || page.Next == (tables.ExpiryPlace{}) {
			return err
		}
	}
}

// listKnown prints the ledger's proxies that match a query, followed by notes about the
// lists of the accounts.
func (a providerCommands) listKnown(ctx context.Context, list *listing, query proxiesQuery, uncovered bool) error {
	c, err := config.Load(a.configFile)
	if err != nil {
		return err
	}
	var notes []listNote
	err = a.eachLedger(ctx, func(ctx context.Context, l *ledger.Ledger, account string) error {
		name := cmp.Or(account, a.account, c.AccountNames()[0])
		shown := 0
		err := knownProxies(ctx, l, c, name, query, uncovered, func(p tables.Proxy) error {
			shown++
			addProxy(list, account, p)
			return list.err
		})
		last, listing := l.Fleet.Listing(ctx)
		if note := listedNote(c, name, shown, uncovered, !last.Finished.IsZero()); note != "" && (last.Finished.IsZero() || !query.filters()) {
			notes = append(notes, listNote{account, note})
		}
		return errors.Join(err, listing)
	})
	err = list.end(err)
	for _, note := range notes {
		err = errors.Join(err, a.printNote(note))
	}
	return err
}

// listNote is a note about a list of proxies. Account is "" if only one account is selected.
type listNote struct {
	Account string `json:"account,omitempty"`
	Note    string `json:"note"`
}

func (a providerCommands) printNote(n listNote) error {
	if a.output == "json" {
		return printJSON(a.stderr, n)
	}
	text := n.Note
	if n.Account != "" {
		text = "account " + n.Account + ": " + text
	}
	_, err := fmt.Fprintln(a.stdout, text)
	return err
}

// knownProxies yields an account's proxies, nearest expiry first.
func knownProxies(ctx context.Context, l *ledger.Ledger, c *config.Config, account string, query proxiesQuery, uncovered bool, yield func(tables.Proxy) error) error {
	if !uncovered {
		coverage := &plans.Coverage{}
		if query.schedule != "" || query.state != "" { // other filters do not use the coverage, so they work even if a list of proxies is missing
			var err error
			if coverage, err = plans.NewCoverage(c.SchedulesOf(account), plans.HistoryOf(l.Queries), c.ReadListFile); err != nil {
				return err
			}
		}
		err := query.each(ctx, l, coverage, yield)
		if err != nil || query.filters() || !query.Until.Equal(always) {
			return err
		}
		return l.Fleet.WithoutExpiry(ctx, yield)
	}
	var lost, endless []tables.Proxy
	err := schedules.Uncovered(ctx, l.Fleet, time.Now(), c.SchedulesOf(account), c.ReadListFile, func(p tables.Proxy) error {
		switch until := p.LastsUntil(); {
		case until == nil:
			endless = append(endless, p)
		case !until.After(query.Until):
			lost = append(lost, p)
		}
		return nil
	})
	slices.SortFunc(lost, func(x, y tables.Proxy) int { return x.LastsUntil().Compare(*y.LastsUntil()) })
	for _, p := range slices.Concat(lost, endless) {
		if err := yield(p); err != nil {
			return err
		}
	}
	return err
}

// listedNote returns a note about an account's list of proxies: which proxies the list may lack,
// or that the listed proxies will not be renewed. It returns "" if there is nothing to note.
func listedNote(c *config.Config, account string, shown int, uncovered, listed bool) string {
	switch {
	case !listed:
		return "no listing of the account's proxies has ended yet: these are only those that commands have touched; --live reads the provider's list"
	case uncovered && shown > 0:
		return fmt.Sprintf("%d proxies will not be renewed: they are in no schedule, or their expiry is not known", shown)
	case shown > 0 && len(c.SchedulesOf(account)) == 0:
		return "no schedule renews them; Perennial reads the provider's list once an hour, --live reads it now"
	case shown == 0 && !uncovered:
		return "--live reads the provider's list"
	}
	return ""
}

func (a providerCommands) proxiesRetire() *cobra.Command {
	var q verbs.RetireRequest
	c := newCommand("retire ID…", "Stop renewing proxies", func(ctx context.Context, args []string) error {
		q.ProxyIDs = args
		changed, err := askOnce(ctx, a.app, verbs.Retire, q)
		done := "schedules let %s expire"
		if q.Undo {
			done = "schedules renew %s again"
		}
		return a.printChange(changed, fmt.Sprintf(done, english.Plural(changed.Changed, "more proxy", "more proxies")), err)
	})
	c.Long = `Takes proxies out of every schedule. The proxies work until they expire, and ` + "`perennial renew`" + ` still
renews them. --undo lets schedules renew the proxies again.`
	c.Args = cobra.RangeArgs(1, verbs.MaxRetired)
	c.Flags().BoolVar(&q.Undo, "undo", false, "let schedules renew them again")
	return signed(c, &q.By, &q.Reason, askedFor)
}
