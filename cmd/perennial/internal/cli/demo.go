package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/cmd/perennial/internal/verbs"
	"perennial/cmd/perennial/internal/web"
	"perennial/jobs/inspect"
	"perennial/ledger/fact"
	"perennial/ledger/sleep"
	"perennial/queue"
	"perennial/queue/events"
	"perennial/queue/publish"
	"perennial/queue/service"
	"perennial/schedules/plans"
	"perennial/upstream/sandbox"
)

const demoTimeout = 60 * time.Second

func (a setupCommands) demoCommand() *cobra.Command {
	var keep bool
	c := newCommand("demo", "Run a full example in one process and check the books", func(ctx context.Context, _ []string) error { return a.demo(ctx, keep) })
	c.Flags().BoolVar(&keep, "keep", false, "keep the demo running after its last step, until you stop it")
	return c
}

type demo struct {
	app    *app
	host   *daemon.Host
	events eventLog
	cost   demoCost // cost of the steps so far
}

func (a setupCommands) demo(ctx context.Context, keep bool) (err error) {
	if keep {
		var stop context.CancelFunc
		ctx, stop = serving(ctx)
		defer stop()
	}
	dir, err := os.MkdirTemp("", "perennial-demo-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c := config.Embedded()
	c.DataDir, c.NATS.Listen, c.HTTP.Listen = dir, "127.0.0.1:0", "127.0.0.1:0"
	c.Schedules = []plans.Schedule{demoSchedule()}
	log := a.logger()
	if !a.verbose {
		log.SetLevel(logrus.ErrorLevel)
	}
	h, err := daemon.Start(ctx, c, log)
	if err != nil {
		return err
	}
	defer h.Close()
	hostCtx, stopHost := context.WithCancel(ctx)
	defer stopHost()
	done := make(chan error, 1)
	go func() { done <- h.Run(hostCtx) }()
	d := &demo{app: a.app, host: h}
	limited, cancel := context.WithTimeout(ctx, demoTimeout)
	defer cancel()
	if err := d.show(limited); err != nil {
		return err
	}
	if keep {
		code, err := daemon.LoginCode(dir, web.Person{Name: operator(), Role: web.Operator})
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "\nStill up: NATS %s, sandbox %s. Ctrl-C ends it.\nPages: %s (works once, within %d minutes)\n",
			h.NATSURL(), h.Sandbox.SandboxURL(), loginAddress(h.HTTP.URL(), code), int(web.LinkLife.Minutes()))
		<-ctx.Done()
	} else if a.output == "table" {
		fmt.Fprintln(a.stderr, "\nNext: `perennial init --sandbox` sets a trial up; `perennial demo --keep` opens the web pages.")
	}
	stopHost()
	return <-done
}

// demoSchedule renews proxies that expire within three days. The demonstration runs it
// explicitly after its commands, so that every demonstration costs the same.
func demoSchedule() plans.Schedule {
	return plans.Schedule{
		Name: "keepalive", Account: "main", Cron: "@yearly", Timezone: "UTC", RenewBefore: 72 * time.Hour, DurationDays: 30, Chunk: 100,
	}
}

type demoStep struct {
	title, id, want string
	kind            queue.Kind
	body            map[string]any
	fault           string
	times           int // number of times that it is published
}

func demoSteps() []demoStep {
	order := func(title, id, offer string, quantity int, scenario, want string) demoStep {
		body := map[string]any{"id": id, "duration_days": 30, "items": []any{map[string]any{"offer_code": offer, "quantity": quantity}}}
		if scenario != "" {
			body["sandbox_scenario"] = scenario
		}
		return demoStep{title: title, kind: queue.KindOrderCreate, id: id, want: want, body: body, times: 1}
	}
	ceiling := order("bought under a ceiling, delivered at once", "buy-now", "off_us_dallas", 5, "", "delivered")
	ceiling.body["max_total_cents"] = 1500
	renew := func(title, id string, proxies ...string) demoStep {
		return demoStep{title: title, kind: queue.KindProxyRenew, id: id, want: "completed", times: 1, body: map[string]any{
			"id": id, "duration_days": 30, "proxy_ids": proxies, "labels": map[string]string{"ticket": "OPS-7"},
		}}
	}
	lost := renew("renewed, though the reply was lost", "renew-lost-reply", "px_jp_1")
	lost.fault = "drop_after"
	twice := renew("sent twice, done once", "renew-twice", "px_jp_2", "px_jp_3")
	twice.times = 2
	return []demoStep{
		ceiling,
		order("delayed, polled, delivered", "buy-delayed", "off_de_frankfurt", 2, "delayed", "delivered"),
		order("delivered in parts", "buy-partial", "off_jp_tokyo", 4, "partial", "delivered"),
		order("rejected and refunded", "buy-rejected", "off_br_saopaulo", 3, "rejected", "refunded"),
		lost, twice,
	}
}

func (d *demo) show(ctx context.Context) error {
	q, err := queue.Connect(queue.ConnectConfig{Embedded: d.host.Embedded})
	if err != nil {
		return err
	}
	defer q.Close()
	next, stop := iter.Pull2(events.Of(q.JetStream(), "main").Follow(ctx, events.From{Seq: 1}))
	defer stop()
	d.events.next = next
	out := d.app.stdout
	fmt.Fprintf(out, "Perennial demo: embedded NATS %s, embedded sandbox %s, SQLite in a throw-away directory\n", d.host.NATSURL(), d.host.Sandbox.SandboxURL())
	r := &remote{q, "main"}
	if err := d.opening(ctx, r); err != nil {
		return err
	}
	steps := demoSteps()
	for _, s := range steps {
		if err := d.publish(ctx, q, s); err != nil {
			return err
		}
	}
	for _, s := range steps {
		if err := d.ended(ctx, r, s); err != nil {
			return err
		}
	}
	if err := d.sweep(ctx, r); err != nil {
		return err
	}
	if err := d.books(ctx); err != nil {
		return err
	}
	return d.printEvents(ctx)
}

func (d *demo) publish(ctx context.Context, q *queue.Queue, s demoStep) error {
	if s.fault != "" {
		if err := d.setFault(ctx, s.fault, "/api/v1/proxies/renew"); err != nil {
			return err
		}
	}
	data, err := json.Marshal(s.body)
	if err != nil {
		return err
	}
	for range s.times {
		if err := publish.New(q.JetStream()).Publish(ctx, "main", publish.Outgoing{Kind: s.kind, Data: data}); err != nil {
			return err
		}
	}
	if s.fault != "" {
		// Wait until the fault has happened, so that it affects no other command.
		return d.events.wait("operation.waiting", s.id)
	}
	return nil
}

func (d *demo) setFault(ctx context.Context, fault, path string) error {
	body, err := json.Marshal(map[string]any{"environment": "sandbox", "method": "POST", "path": path, "times": 1, "fault": fault})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.host.Sandbox.ControlURL()+"/faults", bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("the sandbox refused the fault %s: HTTP %d", fault, response.StatusCode)
	}
	return nil
}

func awaitEnd(ctx context.Context, r *remote, id string) (status inspect.CommandStatus, err error) {
	for {
		states, err := ask(ctx, r, verbs.States, verbs.StatesRequest{IDs: []string{id}})
		if settledState(states[id]) {
			if status, err = ask(ctx, r, verbs.Status, verbs.OperatorRequest{ID: id}); err == nil {
				return status, nil
			}
		}
		if err != nil && !errors.Is(err, service.ErrNoRunner) && !errors.Is(err, queue.ErrStopping) {
			return status, err
		}
		if err := sleep.For(ctx, pollEvery); err != nil {
			return status, err
		}
	}
}

type demoCost struct {
	charged, refunded int64
	attempts          int64
}

func (c *demoCost) add(x demoCost) {
	c.charged, c.refunded, c.attempts = c.charged+x.charged, c.refunded+x.refunded, c.attempts+x.attempts
}

func costOf(s inspect.CommandStatus) (c demoCost) {
	for _, o := range s.Operations {
		c.add(demoCost{o.ChargedCents, o.RefundedCents, o.Attempts})
	}
	return c
}

func (d *demo) opening(ctx context.Context, r *remote) error {
	if err := d.events.wait("ledger.opened", ""); err != nil {
		return fmt.Errorf("the account was not bound: %w", err)
	}
	b, err := ask(ctx, r, verbs.Balance, struct{}{})
	if err != nil {
		return err
	}
	fmt.Fprintf(d.app.stdout, "\nWALLET  %s at the beginning\n\n%-20s %-10s %12s %12s %9s\n", money(b.FundingCents, b.Currency), "STEP", "STATE", "CHARGED", "REFUNDED", "ATTEMPTS")
	return nil
}

func (d *demo) line(what, state string, c demoCost, title string) {
	const currency = "USD" // currency of the embedded sandbox
	line := fmt.Sprintf("  %-18s %-10s %12s %12s %9s  %s", what, state, money(c.charged, currency), money(c.refunded, currency), attemptText(c.attempts), title)
	fmt.Fprintln(d.app.stdout, strings.TrimRight(line, " "))
}

func (d *demo) ended(ctx context.Context, r *remote, s demoStep) error {
	status, err := awaitEnd(ctx, r, s.id)
	if err != nil {
		return fmt.Errorf("%s: %w", s.id, err)
	}
	if status.State != s.want {
		return fmt.Errorf("%s ended as %s and should be %s: %s", s.id, status.State, s.want, status.Reason)
	}
	c := costOf(status)
	d.cost.add(c)
	d.line(s.id, status.State, c, s.title)
	return nil
}

// sweep runs the schedule until no proxy is left to renew. It may take several runs, because a
// schedule learns an unknown price by renewing one proxy first.
func (d *demo) sweep(ctx context.Context, r *remote) error {
	var cost demoCost
	renewed, commands := 0, 0
	for {
		plan, err := ask(ctx, r, verbs.Sweep, verbs.SweepRequest{Schedule: demoSchedule().Name, By: "demo", Reason: "to show a sweep"})
		if err != nil {
			return err
		}
		if len(plan.Included) == 0 {
			break
		}
		for _, raw := range plan.Commands {
			c, err := d.swept(ctx, r, raw)
			if err != nil {
				return err
			}
			cost.add(c)
		}
		renewed, commands = renewed+len(plan.Included), commands+len(plan.Commands)
	}
	if renewed == 0 {
		return errors.New("the sweep found nothing to renew")
	}
	d.cost.add(cost)
	d.line("sweep "+demoSchedule().Name, "completed", cost, fmt.Sprintf("renewed the %d that expire within 72 hours, by %d commands", renewed, commands))
	d.line("sum", "", demoCost{d.cost.charged, d.cost.refunded, 0}, "")
	return nil
}

func (d *demo) swept(ctx context.Context, r *remote, raw []byte) (demoCost, error) {
	var command struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(raw, &command); err != nil {
		return demoCost{}, err
	}
	status, err := awaitEnd(ctx, r, command.ID)
	if err == nil && status.State != "completed" {
		err = fmt.Errorf("it ended as %s: %s", status.State, status.Reason)
	}
	if err != nil {
		return demoCost{}, fmt.Errorf("the sweep's command %s: %w", command.ID, err)
	}
	return costOf(status), nil
}

// books returns an error unless the ledger, the provider's wallet and the sandbox's list of
// charges agree to the cent.
func (d *demo) books(ctx context.Context) error {
	a := d.host.Accounts[0]
	b, err := a.Ledger().Money.Balance(ctx, a.Name)
	if err != nil {
		return err
	}
	if _, err := a.Ledger().Verify(ctx); err != nil {
		return err
	}
	wallet, err := a.Client.Wallet(ctx)
	if err != nil {
		return err
	}
	charges, err := sandbox.ReadCharges(filepath.Join(d.host.Config.DataDir, "sandbox.charges.jsonl"))
	if err != nil {
		return err
	}
	var charged, refunded int64
	keys := map[string]bool{}
	for _, c := range charges {
		if c.Kind == "refund" {
			refunded += c.AmountCents
		} else {
			charged += c.AmountCents
			keys[c.IdempotencyKey] = true
		}
	}
	opening := b.FundingCents
	referee := opening - charged + refunded
	fmt.Fprintf(d.app.stdout, "\n%-31s %12s %12s %12s\n", "BOOKS", "CHARGED", "REFUNDED", "WALLET")
	fmt.Fprintf(d.app.stdout, "  %-29s %12s %12s %12s  (chain and projections verified, %d facts)\n", "ledger", money(b.ChargedCents, b.Currency), money(b.RefundedCents, b.Currency), money(b.WalletCents, b.Currency), b.Head.Seq)
	fmt.Fprintf(d.app.stdout, "  %-29s %12s %12s %12s\n", "provider", "", "", money(wallet.BalanceCents, wallet.Currency))
	fmt.Fprintf(d.app.stdout, "  %-29s %12s %12s %12s  (the sandbox's own list of charges, %d keys)\n", "referee", money(charged, b.Currency), money(refunded, b.Currency), money(referee, b.Currency), len(keys))
	if d.cost.charged != charged || d.cost.refunded != refunded {
		return errors.New("the steps do not add up to what was charged")
	}
	if b.ChargedCents != charged || b.RefundedCents != refunded || b.WalletCents != wallet.BalanceCents || referee != wallet.BalanceCents {
		return errors.New("the books do not agree")
	}
	fmt.Fprintf(d.app.stdout, "  they agree to the cent: %s - %s + %s = %s\n", money(opening, b.Currency), money(charged, b.Currency), money(refunded, b.Currency), money(referee, b.Currency))
	return nil
}

func demoShown() []string { return []string{"renew-lost-reply", "buy-rejected"} }

const demoWidth = 118 // characters

func (d *demo) printEvents(ctx context.Context) error {
	seq, _, err := d.host.Accounts[0].Ledger().Head(ctx)
	if err != nil {
		return err
	}
	if err := d.events.until(func(e events.Event) bool { return e.Seq >= uint64(seq) }); err != nil {
		return err
	}
	currency, err := d.host.Accounts[0].Ledger().Currency(ctx)
	if err != nil {
		return err
	}
	all := d.events.all
	fmt.Fprintf(d.app.stdout, "\nEVENTS  %d published on %s, without a gap; those of %s:\n", len(all), queue.EventsStream("main"), strings.Join(demoShown(), " and "))
	for _, e := range all {
		if slices.Contains(demoShown(), commandOf(e)) {
			fmt.Fprintln(d.app.stdout, "  "+wrapped(eventLine(e, currency), demoWidth, "\n            "))
		}
	}
	for i, e := range all {
		if e.Seq != uint64(i+1) {
			return fmt.Errorf("event %d has sequence %d: there is a gap", i+1, e.Seq)
		}
	}
	return nil
}

// wrapped breaks a text between words, so that no line is longer than width. It never breaks
// within an amount, because part of an amount could be read as another amount.
func wrapped(text string, width int, breaks string) string {
	const together = "\u00a0" // non-breaking space between an amount and its currency
	out, length := "", 0
	text = anAmount.ReplaceAllString(text, "$1"+together+"$2")
	for i, word := range strings.SplitAfter(text, " ") {
		n := len([]rune(strings.TrimRight(word, " ")))
		if i > 0 && length+n > width && strings.TrimSpace(out) != "" && n > 0 {
			out = strings.TrimRight(out, " ") + breaks
			length = len([]rune(strings.TrimPrefix(breaks, "\n")))
		}
		out += word
		length += len([]rune(word))
	}
	return strings.ReplaceAll(strings.TrimRight(out, " "), together, " ")
}

var anAmount = regexp.MustCompile(`(\d\.\d\d) ([A-Z]{3})\b`)

type eventLog struct {
	next func() (events.Event, error, bool)
	all  []events.Event
}

// until reads events until an event matches. It reads nothing if an earlier event already
// matches.
func (l *eventLog) until(match func(events.Event) bool) error {
	if slices.ContainsFunc(l.all, match) {
		return nil
	}
	for {
		e, err, _ := l.next()
		if err != nil {
			return err
		}
		if l.all = append(l.all, e); match(e) {
			return nil
		}
	}
}

func (l *eventLog) wait(eventType, commandID string) error {
	return l.until(func(e events.Event) bool {
		return e.Type == eventType && (commandID == "" || commandOf(e) == commandID)
	})
}

func commandOf(e events.Event) string {
	var event struct {
		Data fact.Ref `json:"data"`
	}
	if json.Unmarshal(e.Data, &event) != nil {
		return ""
	}
	return event.Data.CommandID
}
