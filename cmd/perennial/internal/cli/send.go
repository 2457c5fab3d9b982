package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/daemon"
	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs"
	"perennial/jobs/command"
	"perennial/jobs/inspect"
	"perennial/ledger/fact"
	"perennial/ledger/sleep"
	"perennial/queue"
	"perennial/queue/publish"
	"perennial/queue/service"
	"perennial/upstream"
)

type commandFlags struct {
	id       string
	days     int64
	most     *int64 // nil if the flag is absent
	notAfter string
	labels   map[string]string
	priority string
	wait     bool
	timeout  time.Duration
	dryRun   bool
	given    bool // whether --id was given
}

func (f *commandFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.id, "id", "", "the command's id; commands with the same id are carried out once (default: a random id)")
	wholeVar(c.Flags(), &f.days, "days", 30, "duration in days, a multiple of 30")
	c.Flags().Var(ceilingFlag{cents: &f.most}, "max", "the most that the whole command may cost, such as 15.00, or 1500 in cents (default: no limit)")
	c.Flags().Var(ceilingFlag{&f.most, true}, "max-total-cents", "the same as --max")
	c.Flags().StringVar(&f.notAfter, "not-after", "", "do not start to send the command after this time, such as 2026-12-01T00:00:00Z, or after this duration, such as 24h")
	c.Flags().StringToStringVar(&f.labels, "label", nil, "label key=value, carried by every event; may be repeated")
	c.Flags().StringVar(&f.priority, "priority", "", "high goes before all other commands, bulk after them")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "print what the command would cost now, and publish nothing")
	c.Flags().BoolVar(&f.wait, "wait", false, "follow the command until it has ended")
	c.Flags().Var(span{&f.timeout}, "timeout", "with --wait: how long to follow the command, such as 2m; the command continues afterwards (default: until it has ended)")
}

func (f *commandFlags) body() (map[string]any, error) {
	if f.timeout > 0 && !f.wait {
		return nil, usage("--timeout needs --wait")
	}
	if f.priority != "" && !slices.Contains(priorities, f.priority) {
		return nil, usage("--priority %s: use %s, or leave it out", f.priority, strings.Join(priorities, " or "))
	}
	if f.days <= 0 || f.days%30 != 0 {
		return nil, usage("--days %d: use 30, 60, 90 or another multiple of 30", f.days)
	}
	if f.given = f.id != ""; !f.given {
		f.id = "cli-" + strings.ToLower(rand.Text())
	}
	body := map[string]any{"id": f.id, "duration_days": f.days}
	if f.most != nil {
		body["max_total_cents"] = *f.most
	}
	if f.notAfter != "" {
		at, err := instantOrSpan("not-after", f.notAfter)
		if err != nil {
			return nil, err
		}
		body["not_after"] = at
	}
	if len(f.labels) > 0 {
		body["labels"] = f.labels
	}
	if f.priority != "" {
		body["priority"] = f.priority
	}
	return body, nil
}

func (a sendCommands) orderCommand() *cobra.Command {
	var f commandFlags
	var items []string
	var scenario string
	c := newCommand("order OFFER=QUANTITY…", "Buy proxies", func(ctx context.Context, more []string) error {
		if items = append(items, more...); len(items) == 0 {
			return usage("say what to buy: perennial order off_us_dallas=5 (`perennial offers` lists what there is)")
		}
		body, err := f.body()
		if err != nil {
			return err
		}
		if body["items"], err = orderItems(items); err != nil {
			return err
		}
		if scenario != "" {
			body["sandbox_scenario"] = scenario
		}
		return a.publishOne(ctx, queue.KindOrderCreate, f, body)
	})
	c.Args = cobra.ArbitraryArgs
	f.add(c)
	c.Flags().StringSliceVar(&items, "item", nil, "another item, written like an argument: off_us_dallas=5, or with CIDRs off_us_dallas=5@CIDR+CIDR; may be repeated")
	c.Flags().StringVar(&scenario, "scenario", "", "on a sandbox account: success, delayed, partial or rejected")
	return c
}

// orderItems parses OFFER=QUANTITY, or OFFER=QUANTITY@CIDR+CIDR for chosen address ranges.
// It does not refuse repeated offers, because the command parser does.
func orderItems(items []string) ([]command.Item, error) {
	lines := make([]command.Item, 0, len(items))
	for _, item := range items {
		offer, text, ok := strings.Cut(item, "=")
		text, cidrs, chosen := strings.Cut(text, "@")
		quantity, err := strconv.ParseInt(text, 10, 64)
		if ok && err == nil && quantity <= 0 {
			return nil, usage("%s: the quantity must be over 0", item)
		}
		if ok && err == nil && quantity > upstream.MaxQuantity {
			return nil, usage("%s: an order is of %d proxies at most: use several orders", item, upstream.MaxQuantity)
		}
		if !ok || err != nil {
			return nil, usage("%q: say OFFER=QUANTITY, such as off_us_dallas=5, or with CIDRs off_us_dallas=5@198.51.100.0/24", item)
		}
		line := command.Item{OfferCode: offer, Quantity: quantity}
		if chosen {
			line.CIDRs = strings.Split(cidrs, "+")
		}
		lines = append(lines, line)
	}
	slices.SortStableFunc(lines, func(a, b command.Item) int { return strings.Compare(a.OfferCode, b.OfferCode) })
	return lines, nil
}

func (a sendCommands) renewCommand() *cobra.Command {
	var f commandFlags
	var dueBefore string
	c := newCommand("renew PROXY_ID…", "Renew proxies", func(ctx context.Context, ids []string) error {
		body, err := f.body()
		if err != nil {
			return err
		}
		body["proxy_ids"] = ids
		if dueBefore != "" {
			if body["due_before"], err = instantOrSpan("due-before", dueBefore); err != nil {
				return err
			}
		}
		return a.publishOne(ctx, queue.KindProxyRenew, f, body)
	})
	f.add(c)
	c.Flags().StringVar(&dueBefore, "due-before", "", "skip proxies that expire at or after this time, or after this duration from now, such as 72h")
	return c
}

// withRetryID adds the command's id to an error if the command may be stored in spite of the
// error. Without the id, a second call would choose a new random id, and the command would be
// carried out twice.
func withRetryID(err error, id string) error {
	cut := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	if !cut && !errors.Is(err, queue.ErrDisconnected) && !errors.Is(err, queue.ErrStopping) {
		return err
	}
	return &unsureError{fmt.Errorf("%w\nit may be stored all the same: its id is %s, so use --id %s the next time", err, id, id)}
}

// unsureError means that a command or a record may be stored in spite of the error. Its text
// gives the id for the next attempt, so it is printed even if the program was interrupted.
type unsureError struct{ error }

func (e *unsureError) Unwrap() error { return e.error }

func (a sendCommands) publishOne(ctx context.Context, kind queue.Kind, f commandFlags, body map[string]any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	// Parse the command as the runner does, so that mistakes are found before publication.
	hash, err := contentHash(kind, data)
	if err != nil {
		_, why, named := strings.Cut(err.Error(), fmt.Sprintf("command %q: ", f.id))
		if !named {
			why = err.Error()
		}
		return usage("%s", why)
	}
	out := publish.Outgoing{Kind: kind, Data: data, Priority: queue.Priority(f.priority)}
	if f.dryRun {
		return a.price(ctx, 1, func(yield func([]publish.Outgoing) error) error { return yield([]publish.Outgoing{out}) })
	}
	r, err := a.connect()
	if err != nil {
		return err
	}
	defer r.Close()
	q := verbs.StatesRequest{IDs: []string{f.id}, Hashes: []string{hash}, Messages: []string{command.MessageHash(data)}}
	before := ""
	if f.given {
		before = stateBefore(ctx, r, q)
	}
	if err := persist(ctx, func() error { return publish.New(r.JetStream()).Publish(ctx, r.account, out) }); err != nil {
		return withRetryID(err, f.id)
	}
	if !f.wait {
		return a.printPublished(ctx, f.id, before)
	}
	switch before {
	case "":
		fmt.Fprintf(a.stderr, "published as %s\n", f.id)
	case inspect.StateConflict:
		return conflictOf(f.id)
	default:
		fmt.Fprintf(a.stderr, "%s was published before and is %s: it is not done again\n", f.id, before)
	}
	return a.followFor(ctx, r, f, q)
}

func contentHash(kind queue.Kind, data []byte) (string, error) {
	c, err := command.Parse(jobs.KindOf(kind), data, command.Rules{Environment: "sandbox", CIDRField: "-"})
	if err != nil {
		return "", err
	}
	_, hash, err := c.Content()
	return hash, err
}

// knownWithin limits the time to find out whether an id is known. Publication does not
// depend on the result.
const knownWithin = 2 * time.Second

// stateBefore reads a command's state before the command is published. Both the id and the
// content must match. It returns "" if the command is new or no runner answers. An earlier
// refusal of other content under the same id does not matter.
func stateBefore(ctx context.Context, r *remote, q verbs.StatesRequest) string {
	soon, cancel := context.WithTimeout(ctx, knownWithin)
	defer cancel()
	states, _ := ask(soon, r, verbs.States, q)
	return states[q.IDs[0]]
}

// printPublished prints that a command was published. before is the state that stateBefore
// returned.
func (a sendCommands) printPublished(ctx context.Context, id, before string) error {
	if a.output == "json" {
		out := map[string]string{"command_id": id, "state": "published"}
		if before != "" {
			out["known_as"] = before
		}
		if err := printJSON(a.stdout, out); err != nil {
			return err
		}
	}
	switch {
	case before == inspect.StateConflict:
		return conflictOf(id)
	case a.output == "json":
		return nil
	case before != "":
		_, err := fmt.Fprintf(a.stdout, "%s was published before and is %s: it is not done again; see `perennial status %[1]s`\n", id, before)
		return err
	}
	if c, _, err := a.configured(); err == nil && !a.externalNATS(c) { // on an external NATS, the user may lack permission to ask for pauses
		a.notePauses(ctx, "")
	}
	_, err := fmt.Fprintf(a.stdout, "published as %s; follow it with `perennial status %s`\n", id, id)
	return err
}

func conflictOf(id string) error {
	return &exitError{ExitFailed, fmt.Errorf("%s was published before with other content, which is kept: nothing new is done\nchoose another --id", id)}
}

const pollEvery = 100 * time.Millisecond

func (a sendCommands) followFor(ctx context.Context, r *remote, f commandFlags, q verbs.StatesRequest) error {
	if f.timeout <= 0 {
		return a.follow(ctx, r, f.id, q)
	}
	bounded, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	err := a.follow(bounded, r, f.id, q)
	if bounded.Err() != nil && ctx.Err() == nil {
		return &exitError{ExitFailed, fmt.Errorf("%s had not ended after %s, and continues\nfollow it with `perennial status %s`", f.id, f.timeout, f.id)}
	}
	return err
}

// sayState prints a command's state if the state differs from last and is not final. It returns
// state.
func (a sendCommands) sayState(ctx context.Context, r *remote, id, state, last string) string {
	if state == "" || state == last || settledState(state) {
		return state
	}
	line := id + " is " + state
	if status, err := ask(ctx, r, verbs.Status, verbs.OperatorRequest{ID: id}); err == nil && status.State == state {
		line = joined(": ", line, status.Reason, status.WaitsFor)
	}
	fmt.Fprintln(a.stderr, printable(line))
	return state
}

// notTakenIn is a number of polls. If the ledger still lacks the command after that, the CLI
// prints the reason.
const notTakenIn = 20

func (a sendCommands) sayNotReady(ctx context.Context, r *remote, id string) {
	if v, err := ask(ctx, r, verbs.Show, struct{}{}); err == nil && v.NotReady != "" {
		fmt.Fprintln(a.stderr, printable(id+" is not taken in yet: "+v.NotReady))
	}
}

func (a sendCommands) follow(ctx context.Context, r *remote, id string, q verbs.StatesRequest) error {
	away, said := newAbsence(), ""
	for polls := 0; ; polls++ {
		states, err := ask(ctx, r, verbs.States, q)
		if err := away.after(err); err != nil {
			return err
		}
		state := states[id]
		if state == "" && polls == notTakenIn {
			a.sayNotReady(ctx, r, id)
		}
		said = a.sayState(ctx, r, id, state, said)
		if state == inspect.StateConflict {
			return conflictOf(id)
		}
		if settledState(state) {
			status, err := ask(ctx, r, verbs.Status, verbs.OperatorRequest{ID: id})
			if err == nil {
				return a.followed(status)
			}
			if err := away.after(err); err != nil {
				return err
			}
		}
		if err := untilOver(ctx, r, id, polls); err != nil {
			return err
		}
	}
}

// untilOver waits before the next poll of a command's state. The first polls follow each other
// quickly, because the command may soon be on hold or need review. Later polls wait for the end
// of the command, but at most a second.
func untilOver(ctx context.Context, r *remote, id string, polls int) error {
	if polls < notTakenIn {
		return sleep.For(ctx, pollEvery)
	}
	_, err := ask(ctx, r, verbs.Wait, verbs.WaitRequest{ID: id, TimeoutSeconds: 1})
	if refused, ok := errors.AsType[*service.Error](err); err == nil || ok && refused.Code == daemon.CodeNotFound {
		return ctx.Err()
	}
	return sleep.For(ctx, pollEvery)
}

func (a sendCommands) followed(status inspect.CommandStatus) error {
	if err := statusCommands(a).printStatus("", status); err != nil {
		return err
	}
	code := stateCode(status.State)
	switch {
	case code != ExitDone:
		return &exitError{code: code}
	case len(status.LeftOut) > 0:
		return &exitError{code: ExitPartly}
	}
	return nil
}

// absence tolerates a missing runner for a limited time while the CLI follows a command. The
// runner may be restarting. It continues the command after the restart.
type absence struct{ answered time.Time }

// newAbsence returns an absence that tolerates a missing runner even before the first answer,
// because a failover may be in progress.
func newAbsence() absence { return absence{answered: time.Now().Add(takeOverTimeout - restartTimeout)} }

// takeOverTimeout is how long an account may have no runner during a failover.
const takeOverTimeout = 15 * time.Second

// restartTimeout limits how long a missing runner is tolerated while a command is followed.
const restartTimeout = time.Minute

// after takes the error of a request. It returns nil if the caller should continue. Otherwise it
// returns the error.
func (a *absence) after(err error) error {
	gone := errors.Is(err, service.ErrNoRunner) || errors.Is(err, queue.ErrStopping) || errors.Is(err, publish.ErrNotTaken)
	switch {
	case err == nil:
		a.answered = time.Now()
	case gone && time.Since(a.answered) < restartTimeout:
		return nil
	}
	return err
}

// persist calls the publish function again while no runner takes commands. It gives up after the
// longest time that a failover takes.
func persist(ctx context.Context, publish func() error) error {
	for away := newAbsence(); ; {
		err := publish()
		if err == nil || away.after(err) != nil || sleep.For(ctx, 5*pollEvery) != nil {
			return err
		}
	}
}

// settledState reports whether a command keeps its state unless an operator acts.
func settledState(state string) bool {
	s := fact.State(state)
	return s != "" && (s.Ended() || s == fact.StateReview || s == fact.StateHeld || state == inspect.StateConflict)
}

func stateCode(state string) int {
	switch fact.State(state) {
	case fact.StateRejected, fact.StateFailed, fact.StateRefunded, inspect.StateConflict:
		return ExitFailed
	case fact.StatePartial:
		return ExitPartly
	case fact.StateReview, fact.StateHeld:
		return ExitPerson
	case fact.StateAccepted, fact.StateSending, fact.StateWaiting, fact.StateOpen, fact.StateDelivered, fact.StateCompleted, fact.StateResolved:
	}
	return ExitDone
}

// operatorCommand returns a CLI command that changes one command or operation. done is the
// format of the success message, with a %s for the id.
func (a sendCommands) operatorCommand(use, short, done string, v verbs.Verb[verbs.OperatorRequest, verbs.Changed]) *cobra.Command {
	q, as := verbs.OperatorRequest{}, ""
	c := newCommand(use, short, func(ctx context.Context, args []string) error {
		of, err := idOf(as)
		if err != nil {
			return err
		}
		return sendChange(ctx, a.app, v, q.Named(args[0], of), fmt.Sprintf(done, args[0]))
	})
	signed(c, &q.By, &q.Reason, askedFor)
	asFlag(c, &as)
	return c
}

func sendChange[Q any](ctx context.Context, a *app, v verbs.Verb[Q, verbs.Changed], q Q, done string) error {
	changed, err := askOnce(ctx, a, v, q)
	return a.printChange(changed, done, err)
}

func (a *app) printChange(changed verbs.Changed, done string, err error) error {
	if err != nil {
		return err
	}
	if a.output == "json" {
		return printJSON(a.stdout, changed)
	}
	switch {
	case changed.Changed == 0 && changed.Warning != "":
		done = "nothing to change: " + changed.Warning
	case changed.Changed == 0:
		done = "nothing to change"
	case changed.Warning != "":
		done = printable(done) + "\n" + printable(changed.Warning)
		_, err = fmt.Fprintln(a.stdout, done)
		return err
	}
	_, err = fmt.Fprintln(a.stdout, printable(done))
	return err
}

type retryFilter struct {
	list  verbs.ListRequest
	since time.Duration
	limit int
}

// retriedLine is the JSON output for one of several ids.
type retriedLine struct {
	ID      string `json:"id"`
	Changed int    `json:"changed"`
	Reason  string `json:"reason,omitempty"` // the reason if nothing changed
}

func (a sendCommands) retryCommand() *cobra.Command {
	var q verbs.RetryRequest
	var which retryFilter
	as := ""
	c := newCommand("retry [ID...]", "Retry a command that failed without a charge", func(ctx context.Context, ids []string) error {
		of, err := idOf(as)
		if err == nil {
			err = which.check(ids)
		}
		switch {
		case err != nil:
			return err
		case len(ids) == 1:
			q.OperatorRequest = q.Named(ids[0], of)
			return sendChange(ctx, a.app, verbs.Retry, q, "asked again: "+ids[0])
		}
		return a.retryMany(ctx, ids, of, which, q)
	})
	f := c.Flags()
	signed(c, &q.By, &q.Reason, askedFor)
	asFlag(c, &as)
	f.StringVar(&which.list.State, "state", "", "instead of ids: retry operations in this state; rejected is the only state allowed")
	f.Var(span{&which.since}, "since", "with --state: only operations accepted within this time, such as 1d or 12h")
	f.StringVar(&which.list.Kind, "kind", "", "with --state: only operations of this kind: "+strings.Join(namesOf(jobs.Kinds()), " or "))
	f.StringToStringVar(&which.list.Labels, "label", nil, "with --state: only operations of commands with this label, key=value; may be repeated")
	limitFlag(c, &which.limit, 1000, "with --state: how many to retry, oldest first")
	return c
}

func (w *retryFilter) check(ids []string) error {
	narrowed := w.list.State != "" || w.since > 0 || w.list.Kind != "" || len(w.list.Labels) > 0
	switch {
	case (len(ids) > 0) == narrowed:
		return usage("say which to retry: IDs, or --state rejected --since SPAN")
	case narrowed && (fact.State(w.list.State) != fact.StateRejected || w.since <= 0):
		return usage("a filter needs --state rejected, which alone can be retried, and --since, such as 1d")
	}
	w.list.All, w.list.Limit, w.list.Since = true, verbs.MaxListed, time.Now().Add(-w.since)
	return checkList(w.list)
}

// retryMany retries the operations with these ids, or those that the filter selects. After a
// crash, a second call with the filter skips operations that were already retried.
func (a sendCommands) retryMany(ctx context.Context, ids []string, of inspect.As, which retryFilter, q verbs.RetryRequest) error {
	r, err := a.connect()
	if err != nil {
		return err
	}
	defer r.Close()
	filtered := len(ids) == 0
	if filtered {
		q.UnlessRepeated, of = true, inspect.AsOperation
		if ids, err = rejected(ctx, r, which.list); err != nil {
			return err
		}
	}
	done, refused, list := 0, 0, a.listing("no operation matches", "ID", "CHANGED", "REASON")
	for _, id := range ids {
		if filtered && done == which.limit {
			break
		}
		q.OperatorRequest = verbs.OperatorRequest{By: q.By, Reason: q.Reason}.Named(id, of)
		changed, err := ask(ctx, r, verbs.Retry, q)
		line := retriedLine{ID: id, Changed: changed.Changed}
		if no, ok := errors.AsType[*exitError](err); ok && no.code == ExitFailed {
			line.Reason, err = no.Error(), nil
			refused++
		}
		if err != nil {
			return list.end(fmt.Errorf("%d of %d were asked again, and then: %w\ncall this again: it continues", done, len(ids), err))
		}
		if line.Changed > 0 {
			done++
		}
		if list.add("", line, id, strconv.Itoa(line.Changed), printable(line.Reason)); list.err != nil {
			return list.err
		}
	}
	if filtered || refused == 0 {
		return list.end(nil)
	}
	code := ExitPartly // refusals matter only for ids that the user gave
	if done == 0 {
		code = ExitFailed
	}
	return list.end(&exitError{code, fmt.Errorf("%d of %d were not asked again", refused, len(ids))})
}

// rejected returns the ids of rejected operations, oldest first. It omits commands that were
// refused before acceptance, because they have no operation. Their producer can publish them
// again with the original id.
func rejected(ctx context.Context, r *remote, q verbs.ListRequest) (ids []string, err error) {
	all, err := ask(ctx, r, verbs.List, q)
	for _, o := range slices.Backward(all) {
		if o.OperationID != "" {
			ids = append(ids, o.OperationID)
		}
	}
	return ids, err
}
