package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs/command"
	"perennial/ledger/fact"
	"perennial/schedules"
	"perennial/schedules/plans"
)

type change struct {
	does     string // description if the change failed
	did      string // description if the change succeeded
	parse    formParser
	timeout  time.Duration // askWithin or more
	unsigned bool          // the change needs no reason, because it is not recorded
}

type formParser func(form func(string) string) (*request, error)

// changeFunc makes a change. The page shows the text said after a success, unless it is "".
type changeFunc func(ctx context.Context, a Account, by signature) (said string, err error)

// signature is the person who makes a change, the reason and the time.
type signature struct {
	name, reason string
	at           time.Time
}

// request is the service request of a change. words are the words of the equivalent CLI command.
// The do function makes the change; by default it sends the service request.
type request struct {
	verb     string
	question map[string]any
	words    []string
	do       changeFunc
}

func newRequest(verb verbs.Spec, words ...string) *request {
	r := &request{verb: verb.Name, question: map[string]any{}, words: slices.Clone(words)}
	r.do = r.ask
	return r
}

// set sets a field of the service request. words are the words that set the same value in the
// equivalent CLI command.
func (r *request) set(field string, value any, words ...string) {
	r.question[field] = value
	r.words = append(r.words, words...)
}

// option sets a field and its CLI flag, unless the value is "".
func (r *request) option(field, value, flag string) {
	if value != "" {
		r.set(field, value, flag, value)
	}
}

func (r *request) ask(ctx context.Context, a Account, by signature) (string, error) {
	r.question["by"], r.question["reason"] = by.name, by.reason
	var x changeAnswer
	if err := a.Ask(ctx, r.verb, r.question, &x); err != nil {
		return "", err
	}
	return x.said()
}

// changeAnswer has the fields of the responses to all service requests that change something.
type changeAnswer struct {
	Changed     *int              `json:"changed"`
	Warning     string            `json:"warning"`
	Currency    string            `json:"currency"`
	WalletCents *int64            `json:"wallet_cents"`
	Due         *int              `json:"due"` // Due, Included, Left and State are set by a run of a schedule
	Included    []json.RawMessage `json:"included"`
	LeftOut     map[string]int    `json:"left_out_counts"`
	Left        *fact.SweepLeft   `json:"left"`
	State       string            `json:"state"`
}

// unpaid returns how many proxies are due whose renewal is not paid already.
func (x changeAnswer) unpaid() int { return plans.Plan{Due: *x.Due, LeftOutCounts: x.LeftOut}.Unpaid() }

// said describes what changed. It returns an error if nothing changed.
func (x changeAnswer) said() (string, error) {
	switch {
	case x.Changed != nil && *x.Changed == 0 && x.Warning != "":
		return "", errors.New("nothing was changed: " + x.Warning)
	case x.Changed != nil && *x.Changed == 0:
		return "", errors.New("nothing was changed: it was so already")
	case x.Due != nil && x.State == schedules.StateHeld:
		return fmt.Sprintf("%d due. The plan needs approval: nothing was published.", x.unpaid()), nil
	case x.Due != nil && x.Left != nil:
		return fmt.Sprintf("%d due, %s published. The run continues: %s.", x.unpaid(), english.Plural(len(x.Included), "renewal", ""),
			english.Plural(x.Left.Proxies, "proxy follows", "proxies follow")+" as far as its budgets allow"), nil
	case x.Due != nil:
		return fmt.Sprintf("%d due, %s published.", x.unpaid(), english.Plural(len(x.Included), "renewal", "")), nil
	case x.Warning == "" && x.WalletCents != nil && x.Currency != "": // without a currency, the wallet balance cannot be formatted
		return "The ledger balance is " + fact.Amount(*x.WalletCents, x.Currency) + ".", nil
	}
	return x.Warning, nil
}

// byID returns the parser for a change of one item. The form contains the item's id. The service
// request has the id in this field.
func byID(verb verbs.Spec, field string, command ...string) formParser {
	return func(form func(string) string) (*request, error) {
		id := form("id")
		if id == "" {
			return nil, errors.New("the form names nothing")
		}
		r := newRequest(verb, command...)
		r.set(field, id, id)
		return r, nil
	}
}

func ofAccount(verb verbs.Spec, command ...string) formParser {
	return func(func(string) string) (*request, error) {
		return newRequest(verb, command...), nil
	}
}

func ofCommand(verb verbs.Spec) formParser {
	return func(form func(string) string) (*request, error) {
		id := form("command_id")
		if id == "" {
			return byID(verb, "id", verb.Name)(form)
		}
		r := newRequest(verb, verb.Name)
		if r.set("command_id", id, id); command.MayNameOperation(id) {
			r.words = append(r.words, "--as", "command")
		}
		return r, nil
	}
}

// changes maps the last part of an address to its change.
var changes = map[string]change{
	"release":         {does: "release a command", did: "the command was released", parse: ofCommand(verbs.Release.Spec)},
	"cancel":          {does: "cancel a command", did: "the command was cancelled", parse: ofCommand(verbs.Cancel.Spec)},
	"retry":           {does: "retry a command", did: "the command is sent again", parse: ofCommand(verbs.Retry.Spec)},
	"approve":         {does: "approve a plan", did: "the plan was approved", parse: approve},
	"decline":         {does: "decline a plan", did: "the plan was declined", parse: byID(verbs.Decline.Spec, "plan", "schedules", "decline")},
	"sweep":           {does: "run a schedule", did: "the schedule ran", parse: runSchedule, timeout: planWithin},
	"schedule-resume": {does: "resume a schedule", did: "the schedule was resumed", parse: byID(verbs.ScheduleResume.Spec, "schedule", "schedules", "resume")},
	"schedule-pause":  {does: "pause a schedule", did: "the schedule was paused", parse: pauseSchedule},
	"pause":           {does: "pause the account", did: "the account was paused", parse: ofAccount(verbs.Pause.Spec, "accounts", "pause")},
	"resume":          {does: "resume the account", did: "the account was resumed", parse: ofAccount(verbs.Resume.Spec, "accounts", "resume")},
	"correct":         {does: "correct an answer", did: "the answer was corrected", parse: correct, timeout: planWithin},
	"resolve":         {does: "answer a review", did: "the review was answered", parse: resolve, timeout: planWithin},
	"retire":          {does: "retire a proxy", did: "the proxy was retired", parse: retire(false)},
	"reinstate":       {does: "reinstate a proxy", did: "the proxy was reinstated", parse: retire(true)},
	"dead-requeue":    {does: "publish a dead letter again", did: "the dead letter was published again", parse: ofLetter(verbs.DeadRequeue.Spec, "requeue")},
	"dead-correct":    {does: "publish a corrected command", did: "the corrected command was published", parse: correctLetter},
	"dead-drop":       {does: "remove a dead letter", did: "the dead letter was removed", parse: ofLetter(verbs.DeadDrop.Spec, "drop")},
	"webhook-test":    {does: "send a test event", did: "a test event was sent", parse: testWebhook, timeout: planWithin, unsigned: true},
	"webhook-replay":  {does: "deliver events again", did: "events are delivered again", parse: replayWebhook},
}

// approve is the parser for the approval of a plan. The change reports how many renewals
// were published, and their cost.
func approve(form func(string) string) (*request, error) {
	r, err := byID(verbs.Approve.Spec, "plan", "schedules", "approve")(form)
	if err != nil {
		return nil, err
	}
	r.do = func(ctx context.Context, a Account, by signature) (string, error) {
		plan, _ := approvalOf(ctx, a.Ledger(), form("id")) // an error is ignored, because a plan may be approved even if its row is unreadable
		text, err := r.ask(ctx, a, by)
		if err != nil || plan == nil || text != "" {
			return text, err
		}
		return fmt.Sprintf("%s published, about %s.", english.Plural(plan.All, "renewal", ""), plan.Cost), nil
	}
	return r, nil
}

// runSchedule is the parser for a run. It refuses a page that was made before the schedule's latest run,
// because a page that is sent twice would run the schedule twice, each time with a whole budget.
func runSchedule(form func(string) string) (*request, error) {
	r, err := byID(verbs.Sweep.Spec, "schedule", "schedules", "run")(form)
	if err != nil || form("after") == "" {
		return r, err
	}
	var after time.Time // zero: it never ran
	if form("after") != neverRan {
		if after, err = time.Parse(time.RFC3339Nano, form("after")); err != nil {
			return nil, errors.New("the form does not say which run was the last: load the page again")
		}
	}
	r.set("after", after)
	return r, nil
}

func pauseSchedule(form func(string) string) (*request, error) {
	r, hours := newRequest(verbs.SchedulePause.Spec, "schedules", "pause"), form("hours")
	if r.set("schedule", form("id"), form("id")); hours == "" {
		return r, nil
	}
	n, err := strconv.ParseInt(hours, 10, 32)
	if err != nil || n < 1 || n > 24*365 {
		return nil, fmt.Errorf("for %q hours: use a whole number, or leave it empty", hours)
	}
	until := time.Duration(n) * time.Hour
	r.words = append(r.words, "--until", until.String())
	r.do = func(ctx context.Context, a Account, by signature) (string, error) {
		r.set("until", by.at.Add(until).UTC())
		return r.ask(ctx, a, by)
	}
	return r, nil
}

func resolve(form func(string) string) (*request, error) {
	r, sure := newRequest(verbs.Resolve.Spec, "reviews", "resolve"), form("sure") == "yes"
	r.set("id", form("id"), form("id"))
	switch answer := form("answer"); answer {
	case "charged":
		cents, err := centsOf(form("amount"))
		if err != nil {
			return nil, err
		}
		r.set("charged", true)
		r.set("charged_cents", cents, "--charged", fact.Decimal(cents))
		if sure {
			r.set("confirm_cents", cents, "--confirm-amount", fact.Decimal(cents))
		}
		r.option("order_no", form("order"), "--order")
	case "not_charged", "send_again":
		r.set("charged", false, "--not-charged")
		if sure {
			r.set("against_evidence", true, "--against-evidence")
		} else {
			r.do = r.unlessCharged
		}
		if answer == "send_again" {
			r.set("send_again", true, "--send-again")
		}
	default:
		return nil, errors.New("choose what the provider did: it charged, or it charged nothing")
	}
	r.option("line", form("line"), "--line")
	return r, nil
}

// unlessCharged sends the answer that nothing was charged. If the provider may have charged, it
// returns ErrUnconfirmed instead. This is the case if the charge is in suspense and the
// provider's wallet agrees with the ledger.
func (r *request) unlessCharged(ctx context.Context, a Account, by signature) (string, error) {
	id, _ := r.question["id"].(string)
	e, err := ask(ctx, a, verbs.Evidence, verbs.OperatorRequest{ID: id})
	if now := e.WalletNow; err == nil && now != nil && now.ProviderCents == now.LedgerCents && e.Suspense() > 0 {
		return "", fmt.Errorf("%w: the provider said that it charged %s, and its wallet agrees with the ledger, in which that is booked", ErrUnconfirmed, fact.Amount(e.Suspense(), e.Currency))
	}
	return r.ask(ctx, a, by)
}

// correct is the parser for a correction. A correction reverses an earlier answer to a review,
// or books a charge that was found later.
func correct(form func(string) string) (*request, error) {
	seq, err := strconv.ParseInt(form("id"), 10, 64)
	if err != nil {
		return nil, errors.New("the form names no answer")
	}
	r := newRequest(verbs.Record.Spec, "ledger", "record")
	r.set("corrects_seq", seq, "--corrects", form("id"))
	charge := form("kind") == fact.MovementCharge
	switch amount := form("amount"); {
	case amount == "" && charge:
		return nil, errors.New("enter the amount that the provider charged, such as 12.34")
	case strings.HasPrefix(amount, "-") || strings.HasPrefix(amount, "−"):
		if charge {
			return nil, fmt.Errorf("%q has a sign: enter what the provider charged, such as 12.34. To take a charge back, use “%s”", amount, takeBack)
		}
		return nil, fmt.Errorf("%q has a sign: enter what is taken back, such as 12.34. To book again what was taken back too much, use “%s”", amount, chargeAgain)
	case amount != "":
		cents, err := centsOf(amount)
		if err != nil {
			return nil, err
		}
		r.set("kind", form("kind"), "--kind", form("kind"))
		r.set("cents", cents, "--cents", strconv.FormatInt(cents, 10))
		if form("sure") == "yes" {
			r.set("confirm_cents", cents, "--confirm-amount", strconv.FormatInt(cents, 10))
		}
	}
	r.option("line", form("line"), "--line")
	return r, nil
}

// confirmView asks to confirm an answer that looks like a mistake.
type confirmView struct {
	Change        string // last part of the address of the change
	Why           string
	Charged       bool
	Cents         int64
	Expected      fact.Cents
	Wallet, After int64
	Currency      string
	Fields        map[string]string
}

// errEdit is the error of a change that a person chose to edit when asked to confirm it.
var errEdit = errors.New("nothing was changed: enter it again")

// refused returns the text and the status code for a form that is shown again after an error.
func refused(why error) (text string, code int) {
	if errors.Is(why, errEdit) {
		return "", http.StatusOK
	}
	return why.Error(), http.StatusUnprocessableEntity
}

// showAnswerAgain shows an answer that was not accepted. If the answer looks like a mistake, it
// asks to confirm the answer. Otherwise it shows the form with the reason.
func (s *operationPages) showAnswerAgain(q accountRequest, form func(string) string, why error) (page, error) {
	if !errors.Is(why, ErrUnconfirmed) {
		text, code := refused(why)
		return s.showOperation(q, form("id"), code, answerForm{Answer: form("answer"), Amount: form("amount"), Order: form("order"), Line: form("line"), Reason: form("reason"), Wrong: text})
	}
	var of operationView
	if err := s.readOperation(q.Context(), q.account, form("id"), &of); err != nil {
		return page{}, err
	}
	v := confirmView{Change: "resolve", Charged: form("answer") == "charged"}
	for _, c := range of.Choices {
		if c.ProxyID == form("line") {
			v.Expected = c.Expected
		}
	}
	for _, x := range of.Lines { // the wallet balance already excludes money in suspense
		if x.State == fact.LineUnresolved && (form("line") == "" || x.ProxyID == form("line")) {
			v.After += x.ChargedCents - x.RefundedCents
		}
	}
	return confirm(q, form, why, v, "Confirm the answer", "id", "answer", "amount", "order", "line", "reason", "back")
}

func showCorrectionAgain(q accountRequest, form func(string) string, why error) (page, error) {
	return confirm(q, form, why, confirmView{Change: "correct", Charged: true}, "Confirm the correction", "id", "operation", "amount", "kind", "line", "reason", "back")
}

// confirm returns a page on which a person confirms a change. The page repeats these fields of
// the form. v.After must be the effect on the wallet in cents, without the amount in the form.
func confirm(q accountRequest, form func(string) string, why error, v confirmView, title string, fields ...string) (page, error) {
	b, err := q.account.Ledger().Money.Balance(q.Context(), q.account.AccountName())
	if v.Charged {
		v.Cents, _ = centsOf(form("amount")) // valid, because the runner has parsed it
	}
	v.Why, v.Wallet, v.Currency, v.Fields = confirmReason(why), b.WalletCents, b.Currency, map[string]string{}
	v.After += b.WalletCents - v.Cents
	for _, name := range fields {
		v.Fields[name] = form(name)
	}
	return page{name: "confirm", title: title, code: http.StatusUnprocessableEntity, data: v}, err
}

// confirmReason returns why an answer needs confirmation, without the CLI flag that the
// error text mentions.
func confirmReason(why error) string {
	text, _, _ := strings.Cut(strings.TrimPrefix(why.Error(), ErrUnconfirmed.Error()+": "), ". ")
	return text
}

// centsOf returns the cents of an amount such as 12, 12.3 or 12.34.
func centsOf(text string) (int64, error) {
	amount := regexp.MustCompile(`^([0-9]{1,15})(?:\.([0-9]{1,2}))?$`).FindStringSubmatch(text)
	if amount == nil {
		return 0, fmt.Errorf("%q is not a valid amount: write what was charged, such as 12.34", text)
	}
	return strconv.ParseInt(amount[1]+(amount[2] + "00")[:2], 10, 64)
}

// retire returns the parser for retiring a proxy or, if undo is set, for reinstating it.
func retire(undo bool) formParser {
	return func(form func(string) string) (*request, error) {
		r := newRequest(verbs.Retire.Spec, "proxies", "retire")
		if r.set("proxy_ids", []string{form("id")}, form("id")); undo {
			r.set("undo", true, "--undo")
		}
		return r, nil
	}
}

type changedView struct {
	Does    string // description of the successful or failed change
	About   string // id of the changed item
	Made    string // id of the command that the change published
	Done    bool
	Unknown bool // the change may have been made, or may still be made
	Why     string
	Warning string
	Back    string
}

func (s *operationPages) change(q accountRequest) (page, error) {
	c, known := changes[q.PathValue("what")]
	name := q.account.AccountName()
	switch {
	case !known:
		return page{}, &pageError{http.StatusNotFound, "There is no such change.", nil}
	case !q.session.MayChange(name):
		return page{}, &pageError{http.StatusForbidden, "You are signed in as a viewer: nothing was changed.", nil}
	}
	form := func(field string) string {
		if field == "id" || field == "line" || field == "command_id" || field == "operation" { // ids are opaque, so spaces may be part of them
			return q.PostFormValue(field)
		}
		return strings.TrimSpace(q.PostFormValue(field))
	}
	v := s.view(q.session, "Change", "")
	v.Account = name
	out := changedView{Does: c.does, About: cmp.Or(form("operation"), form("id"), form("command_id")), Back: localPath(form("back"))}
	r, err := c.read(form)
	reason := form("reason")
	code := http.StatusOK
	if err == nil {
		v.Command = c.cli(q, r.words, reason)
		out.Made = publishedID(q, form)
		out.Warning, err = s.do(q.Context(), q, c, r.do, reason)
	}
	if out.Done = err == nil; out.Done {
		out.Does = c.did
	} else {
		out.Why, code = err.Error(), http.StatusUnprocessableEntity
	}
	if out.Unknown = errors.Is(err, ErrNoAnswer); out.Unknown {
		code = http.StatusGatewayTimeout
	}
	if err != nil {
		if again := s.formAgain(q, form, r != nil, err); again != nil {
			return again(q, form, err)
		}
	}
	s.Log.WithField("account", name).WithField("by", q.session.Name).WithField("change", q.PathValue("what")).WithField("done", out.Done).Info("a change was asked for on the pages")
	v.Data = out
	s.page(q.to, q.Request, "changed", code, v)
	return page{}, nil
}

// read parses the form of a change.
func (c change) read(form func(string) string) (*request, error) {
	r, err := c.parse(form)
	switch {
	case err != nil:
		return r, err
	case form("reason") == "" && !c.unsigned:
		return r, errors.New("a reason is required: it is kept with your name")
	case form("edit") != "":
		return r, errEdit
	}
	return r, nil
}

// publishedID returns the id of the command that requeueing a dead letter will publish. It
// returns "" for any other change, or if the id cannot be read.
func publishedID(q accountRequest, form func(string) string) string {
	text := ""
	switch q.PathValue("what") {
	case "dead-correct":
		text = form("content")
	case "dead-requeue":
		if seq, err := strconv.ParseUint(form("id"), 10, 64); err == nil {
			if l, err := q.account.Letter(q.Context(), seq); err == nil {
				text = l.Text
			}
		}
	}
	var named struct {
		ID string `json:"id"`
	}
	if json.Unmarshal([]byte(text), &named) != nil {
		return ""
	}
	return named.ID
}

// formAgain returns the function that shows the form again after a change has failed. It returns
// nil if the form's page cannot do so. understood means that the form was valid.
func (s *operationPages) formAgain(q accountRequest, form func(string) string, understood bool, why error) func(accountRequest, func(string) string, error) (page, error) {
	_, errNone := q.account.Ledger().Operations.Operation(q.Context(), form("id"))
	switch what := q.PathValue("what"); {
	case what == "dead-correct" && understood:
		return s.showLetterAgain
	case what == "correct" && errors.Is(why, ErrUnconfirmed):
		return showCorrectionAgain
	case what == "correct" && form("operation") != "" && !errors.Is(why, ErrNoAnswer):
		return s.showWrongCorrection
	case what == "resolve" && errNone == nil && !errors.Is(why, ErrNoAnswer):
		return s.showAnswerAgain
	}
	return nil
}

func (s *operationPages) showWrongCorrection(q accountRequest, form func(string) string, why error) (page, error) {
	text, code := refused(why)
	return s.showOperation(q, form("operation"), code, answerForm{
		Seq: form("id"), Kind: form("kind"), Amount: form("amount"), Line: form("line"), Reason: form("reason"), Wrong: text,
	})
}

func (c change) cli(q accountRequest, command []string, reason string) string {
	words := append([]string{"perennial"}, command...)
	if !c.unsigned {
		words = append(words, "--by", q.session.Name, "--reason", reason)
	}
	return shell(append(words, "--account", q.account.AccountName()))
}

func (s *operationPages) do(ctx context.Context, q accountRequest, c change, do changeFunc, reason string) (said string, err error) {
	ctx, cancel := context.WithTimeout(ctx, max(c.timeout, askWithin))
	defer cancel()
	defer s.insight.figures.expire(q.account.AccountName())
	return do(ctx, q.account, signature{q.session.Name, reason, s.Clock()})
}

// shell quotes the words of a command for pasting into a shell.
func shell(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		if quoted[i] = w; w == "" || strings.ContainsFunc(w, needsQuotes) {
			quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

func needsQuotes(r rune) bool {
	return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=@,+%", r)
}
