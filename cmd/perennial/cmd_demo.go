package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"perennial/jobs"
	"perennial/queue"
	"perennial/schedules"
	"perennial/upstream/sandbox"
)

// demoTimeout is when a demonstration that does not come to its end gives up.
const demoTimeout = 60 * time.Second

func (a *app) demoCommand() *cobra.Command {
	var keep bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show the whole way in one process, on embedded parts and a throw-away directory",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context(), keep) },
	}
	c.Flags().BoolVar(&keep, "keep", false, "stay up afterwards, until it is stopped")
	return c
}

// demo is one demonstration.
type demo struct {
	app    *app
	host   *host
	events *eventLog
}

func (a *app) demo(ctx context.Context, keep bool) (err error) {
	dir, err := os.MkdirTemp("", "perennial-demo-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c := embeddedConfig()
	c.DataDir, c.NATS.Listen, c.HTTP.Listen = dir, "127.0.0.1:0", "127.0.0.1:0"
	c.Schedules = []schedules.Schedule{demoSchedule()}
	log := logrus.New()
	log.SetOutput(a.stderr)
	log.SetLevel(logrus.ErrorLevel)
	if a.verbose {
		log.SetLevel(logrus.DebugLevel)
	}
	h, err := startHost(ctx, c, log)
	if err != nil {
		return err
	}
	defer h.close()
	hostCtx, stopHost := context.WithCancel(ctx)
	defer stopHost()
	done := make(chan error, 1)
	go func() { done <- h.run(hostCtx) }()
	d := demo{app: a, host: h, events: newEventLog()}
	limited, cancel := context.WithTimeout(ctx, demoTimeout)
	defer cancel()
	if err := d.show(limited); err != nil {
		return err
	}
	if keep {
		fmt.Fprintf(a.stdout, "\nStill up: NATS %s, dashboard %s, sandbox %s. Ctrl-C ends it.\n", h.natsURL(), h.http.url(), h.sandbox.SandboxURL())
		<-ctx.Done()
	}
	stopHost()
	return <-done
}

// demoSchedule fires every two seconds: what expires within three days is renewed.
func demoSchedule() schedules.Schedule {
	return schedules.Schedule{
		Name: "keepalive", Account: "main", Cron: "*/2 * * * * *", Timezone: "UTC", RenewBefore: 72 * time.Hour, DurationDays: 30, Chunk: 100,
	}
}

// demoStep is one command of the demonstration and how it is to end.
type demoStep struct {
	title, kind, id, want string
	body                  map[string]any
	fault                 string
	twice                 bool
}

func demoSteps() []demoStep {
	order := func(title, id, offer string, quantity int, scenario, want string) demoStep {
		body := map[string]any{"id": id, "duration_days": 30, "items": []any{map[string]any{"offer_code": offer, "quantity": quantity}}}
		if scenario != "" {
			body["sandbox_scenario"] = scenario
		}
		return demoStep{title: title, kind: queue.KindOrderCreate, id: id, want: want, body: body}
	}
	ceiling := order("bought under a ceiling, delivered at once", "buy-now", "off_us_dallas", 5, "", "delivered")
	ceiling.body["max_total_cents"] = 1500
	renew := func(title, id string, proxies ...string) demoStep {
		return demoStep{title: title, kind: queue.KindProxyRenew, id: id, want: "completed", body: map[string]any{
			"id": id, "duration_days": 30, "proxy_ids": proxies, "labels": map[string]string{"ticket": "OPS-7"},
		}}
	}
	lost := renew("renewed, though the reply was lost", "renew-lost-reply", "px_jp_1")
	lost.fault = "drop_after"
	twice := renew("sent twice, done once", "renew-twice", "px_jp_2", "px_jp_3")
	twice.twice = true
	return []demoStep{
		ceiling,
		order("delayed, polled, delivered", "buy-delayed", "off_de_frankfurt", 2, "delayed", "delivered"),
		order("delivered in parts", "buy-partial", "off_jp_tokyo", 4, "partial", "delivered"),
		order("rejected and refunded", "buy-rejected", "off_br_saopaulo", 3, "rejected", "refunded"),
		lost, twice,
	}
}

func (d demo) show(ctx context.Context) error {
	q, err := queue.Connect(queue.ConnectConfig{Embedded: d.host.embedded})
	if err != nil {
		return err
	}
	defer q.Close()
	watchCtx, stopWatch := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		d.events.follow(watchCtx, q)
	}()
	defer func() { stopWatch(); <-watched }()
	out := d.app.stdout
	fmt.Fprintf(out, "Perennial demo: embedded NATS %s, embedded sandbox %s, SQLite in a throw-away directory\n\nCOMMANDS\n", d.host.natsURL(), d.host.sandbox.SandboxURL())
	steps := demoSteps()
	for _, s := range steps {
		if err := d.publish(ctx, q, s); err != nil {
			return err
		}
	}
	r := &remote{q, "main"}
	for _, s := range steps {
		if err := d.ended(ctx, r, s); err != nil {
			return err
		}
	}
	if err := d.sweep(ctx); err != nil {
		return err
	}
	if err := d.books(ctx); err != nil {
		return err
	}
	return d.printEvents(ctx)
}

func (d demo) publish(ctx context.Context, q *queue.Queue, s demoStep) error {
	if s.fault != "" {
		if err := d.setFault(ctx, s.fault, "/api/v1/proxies/renew"); err != nil {
			return err
		}
	}
	data, err := json.Marshal(s.body)
	if err != nil {
		return err
	}
	times := 1
	if s.twice {
		times = 2
	}
	for range times {
		if err := q.PublishCommand(ctx, "main", s.kind, data); err != nil {
			return err
		}
	}
	if s.fault != "" {
		// The fault is for this command alone: the next goes out after it has struck.
		return d.events.wait(ctx, "operation.waiting", s.id)
	}
	return nil
}

// setFault asks the sandbox to spoil the next such request.
func (d demo) setFault(ctx context.Context, fault, path string) error {
	body, err := json.Marshal(map[string]any{"environment": "sandbox", "method": "POST", "path": path, "times": 1, "fault": fault})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.host.sandbox.ControlURL()+"/faults", bytes.NewReader(body))
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

// ended waits for a step's command and prints how it ended.
func (d demo) ended(ctx context.Context, r *remote, s demoStep) error {
	status, err := awaitEnd(ctx, r, s.id)
	if err != nil {
		return fmt.Errorf("%s: %w", s.id, err)
	}
	if status.State != s.want {
		return fmt.Errorf("%s ended as %s and should be %s: %s", s.id, status.State, s.want, status.Reason)
	}
	var charged, refunded, attempts int64
	currency := ""
	for _, o := range status.Operations {
		currency = o.Currency
		charged, refunded, attempts = charged+o.ChargedCents, refunded+o.RefundedCents, attempts+o.Attempts
	}
	fmt.Fprintf(d.app.stdout, "  %-18s %-10s charged %10s  refunded %10s  attempts %d  %s\n", s.id, status.State, money(charged, currency), money(refunded, currency), attempts, s.title)
	return nil
}

func awaitEnd(ctx context.Context, r *remote, id string) (status jobs.CommandStatus, err error) {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		states, err := ask[map[string]string](ctx, r, verbStates, statesRequest{IDs: []string{id}})
		if settledState(states[id]) {
			if status, err = ask[jobs.CommandStatus](ctx, r, verbStatus, byHand{ID: id}); err == nil {
				return status, nil
			}
		}
		if err != nil && !errors.Is(err, queue.ErrNoRunner) && !errors.Is(err, queue.ErrStopping) {
			return status, err
		}
		select {
		case <-ctx.Done():
			return status, ctx.Err()
		case <-ticker.C:
		}
	}
}

// sweep waits until the schedule has renewed what was about to expire.
func (d demo) sweep(ctx context.Context) error {
	if err := d.events.wait(ctx, "sweep.finished", ""); err != nil {
		return fmt.Errorf("the sweep did not come: %w", err)
	}
	plan, err := d.events.plan()
	if err != nil {
		return err
	}
	for _, raw := range plan.Commands {
		var command struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(raw, &command); err != nil {
			return err
		}
		if err := d.events.waitEnd(ctx, command.ID); err != nil {
			return fmt.Errorf("the sweep's command %s: %w", command.ID, err)
		}
	}
	fmt.Fprintf(d.app.stdout, "\nSWEEP  keepalive: %d proxies expire within 72 hours, %d command(s) published and done\n", plan.Due, len(plan.Commands))
	return nil
}

// books compares the ledger, the provider's wallet and the referee, to the cent.
func (d demo) books(ctx context.Context) error {
	a := d.host.accounts[0]
	b, err := a.ledger.Balance(ctx, a.name)
	if err != nil {
		return err
	}
	if _, err := a.ledger.Verify(ctx); err != nil {
		return err
	}
	wallet, err := a.client.Wallet(ctx)
	if err != nil {
		return err
	}
	charges, err := sandbox.ReadCharges(filepath.Join(d.host.config.DataDir, "sandbox.charges.jsonl"))
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
	referee := b.FundingCents - charged + refunded
	fmt.Fprintf(d.app.stdout, "\nBOOKS  %-9s %12s %12s %12s\n", "", "charged", "refunded", "wallet")
	fmt.Fprintf(d.app.stdout, "  %-14s %12s %12s %12s  (chain and projections verified, %d facts)\n", "ledger", money(b.ChargedCents, b.Currency), money(b.RefundedCents, b.Currency), money(b.WalletCents, b.Currency), b.Head.Seq)
	fmt.Fprintf(d.app.stdout, "  %-14s %12s %12s %12s\n", "provider", "", "", money(wallet.BalanceCents, wallet.Currency))
	fmt.Fprintf(d.app.stdout, "  %-14s %12s %12s %12s  (the sandbox's own list of charges, %d keys)\n", "referee", money(charged, b.Currency), money(refunded, b.Currency), money(referee, b.Currency), len(keys))
	if b.ChargedCents != charged || b.RefundedCents != refunded || b.WalletCents != wallet.BalanceCents || referee != wallet.BalanceCents {
		return errors.New("the books do not agree")
	}
	fmt.Fprintln(d.app.stdout, "  they agree to the cent")
	return nil
}

// demoEvents is how many events fit on the rest of the screen.
const demoEvents = 14

func (d demo) printEvents(ctx context.Context) error {
	seq, _, err := d.host.accounts[0].ledger.Head(ctx)
	if err != nil {
		return err
	}
	if err := d.events.waitSeq(ctx, uint64(seq)); err != nil {
		return err
	}
	currency, err := d.host.accounts[0].ledger.Currency(ctx)
	if err != nil {
		return err
	}
	all := d.events.all()
	fmt.Fprintf(d.app.stdout, "\nEVENTS  %d published on %s, without a gap; among them:\n", len(all), queue.EventsStream("main"))
	shown := 0
	for _, e := range all {
		if shown < demoEvents && !slices.Contains([]string{"command.accepted", "operation.sending", "runner.started"}, e.Type) {
			line := []rune(eventLine(e, currency))
			fmt.Fprintln(d.app.stdout, "  "+string(line[:min(len(line), 118)]))
			shown++
		}
	}
	for i, e := range all {
		if e.Seq != uint64(i+1) {
			return fmt.Errorf("event %d has sequence %d: there is a gap", i+1, e.Seq)
		}
	}
	return nil
}
