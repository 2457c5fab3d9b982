// `perennial demo`: its steps and the process that runs them.

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/daemon"
	"perennial/cmd/perennial/internal/verbs"
	"perennial/cmd/perennial/internal/web"
	"perennial/jobs/inspect"
	"perennial/ledger/sleep"
	"perennial/queue"
	"perennial/queue/publish"
	"perennial/queue/service"
	"perennial/schedules/plans"
)

// demoTimeout limits a demonstration.
const demoTimeout = 60 * time.Second

func (a setupCommands) demoCommand() *cobra.Command {
	var keep bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "Run a full example in one process and check the books",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context(), keep) },
	}
	c.Flags().BoolVar(&keep, "keep", false, "keep the demo running after its last step, until you stop it")
	return c
}

type demo struct {
	app    *app
	host   *daemon.Host
	events *eventLog
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
	d := &demo{app: a.app, host: h, events: newEventLog()}
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

// demoStep is one command of the demonstration, with its expected final state.
type demoStep struct {
	title, id, want string
	kind            queue.Kind
	body            map[string]any
	fault           string
	twice           bool
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

func (d *demo) show(ctx context.Context) error {
	q, err := queue.Connect(queue.ConnectConfig{Embedded: d.host.Embedded})
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
	times := 1
	if s.twice {
		times = 2
	}
	for range times {
		if err := publish.New(q.JetStream()).Publish(ctx, "main", publish.Outgoing{Kind: s.kind, Data: data}); err != nil {
			return err
		}
	}
	if s.fault != "" {
		// Wait until the fault has happened, so that it affects no other command.
		return d.events.wait(ctx, "operation.waiting", s.id)
	}
	return nil
}

// setFault makes the sandbox apply a fault to its next matching request.
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
