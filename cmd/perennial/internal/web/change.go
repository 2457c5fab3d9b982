// Changes made in the web UI. Each change makes the service request that the CLI makes.

package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs/command"
	"perennial/ledger/fact"
	"perennial/schedules"
)

// change is a kind of change that the web UI can make.
type change struct {
	does     string // description if the change failed
	did      string // description if the change succeeded
	parse    formParser
	timeout  time.Duration // askWithin or more
	unsigned bool          // the change needs no reason, because it is not recorded
}

// formParser parses the form of a change. It returns the change and the words of the equivalent
// CLI command.
type formParser func(form func(string) string) (do changeFunc, command []string, err error)

// changeFunc makes a change. said is text that the page shows after success, or "".
type changeFunc func(ctx context.Context, a Account, by signature) (said string, err error)

// signature is the person who makes a change, the reason and the time.
type signature struct {
	name, reason string
	at           time.Time
}

// requestChange returns a function that makes a service request.
func requestChange(verb verbs.Spec, question map[string]any) changeFunc {
	return func(ctx context.Context, a Account, by signature) (string, error) {
		question["by"], question["reason"] = by.name, by.reason
		var x changeAnswer
		if err := a.Ask(ctx, verb.Name, question, &x); err != nil {
			return "", err
		}
		return x.said()
	}
}

// changeAnswer has the fields of the responses to all service requests that change something.
type changeAnswer struct {
	Changed     *int              `json:"changed"`
	Warning     string            `json:"warning"`
	Currency    string            `json:"currency"`
	WalletCents *int64            `json:"wallet_cents"`
	Due         *int              `json:"due"` // Due, Included and State are set by a run of a schedule
	Included    []json.RawMessage `json:"included"`
	State       string            `json:"state"`
}

// said describes the change. It returns an error if nothing changed.
func (x changeAnswer) said() (string, error) {
	switch {
	case x.Changed != nil && *x.Changed == 0 && x.Warning != "":
		return "", errors.New("nothing was changed: " + x.Warning)
	case x.Changed != nil && *x.Changed == 0:
		return "", errors.New("nothing was changed: it was so already")
	case x.Due != nil && x.State == schedules.StateHeld:
		return fmt.Sprintf("%d due. The plan needs approval: nothing was published.", *x.Due), nil
	case x.Due != nil:
		return fmt.Sprintf("%d due, %s published.", *x.Due, english.Plural(len(x.Included), "renewal", "")), nil
	case x.Warning == "" && x.WalletCents != nil && x.Currency != "": // without a currency, the wallet balance cannot be formatted
		return "The ledger balance is " + fact.Amount(*x.WalletCents, x.Currency) + ".", nil
	}
	return x.Warning, nil
}

// byID returns the parser for a change of the item whose id is in the form. field is the name
// of the id in the service request.
func byID(verb verbs.Spec, field string, command ...string) formParser {
	return func(form func(string) string) (changeFunc, []string, error) {
		id := form("id")
		if id == "" {
			return nil, nil, errors.New("the form names nothing")
		}
		return requestChange(verb, map[string]any{field: id}), append(append([]string{}, command...), id), nil
	}
}

// ofAccount returns the parser for a change of the whole account.
func ofAccount(verb verbs.Spec, command ...string) formParser {
	return func(func(string) string) (changeFunc, []string, error) {
		return requestChange(verb, map[string]any{}), command, nil
	}
}

// ofCommand returns the parser for a change of the command or operation whose id is in the
// form.
func ofCommand(verb verbs.Spec) formParser {
	return func(form func(string) string) (changeFunc, []string, error) {
		id := form("command_id")
		switch {
		case id == "" && form("id") == "":
			return nil, nil, errors.New("the form names nothing")
		case id == "":
			return requestChange(verb, map[string]any{"id": form("id")}), []string{verb.Name, form("id")}, nil
		case command.MayNameOperation(id):
			return requestChange(verb, map[string]any{"command_id": id}), []string{verb.Name, id, "--as", "command"}, nil
		}
		return requestChange(verb, map[string]any{"command_id": id}), []string{verb.Name, id}, nil
	}
}

// changes maps the last part of an address to its change.
var changes = map[string]change{
	"release":         {does: "release a command", did: "the command was released", parse: ofCommand(verbs.Release.Spec)},
	"cancel":          {does: "cancel a command", did: "the command was cancelled", parse: ofCommand(verbs.Cancel.Spec)},
	"retry":           {does: "retry a command", did: "the command is sent again", parse: ofCommand(verbs.Retry.Spec)},
	"approve":         {does: "approve a plan", did: "the plan was approved", parse: approve},
	"decline":         {does: "decline a plan", did: "the plan was declined", parse: byID(verbs.Decline.Spec, "plan", "schedules", "decline")},
	"sweep":           {does: "run a schedule", did: "the schedule ran", parse: byID(verbs.Sweep.Spec, "schedule", "schedules", "run"), timeout: planWithin},
	"schedule-resume": {does: "resume a schedule", did: "the schedule was resumed", parse: byID(verbs.ScheduleResume.Spec, "schedule", "schedules", "resume")},
	"schedule-pause":  {does: "pause a schedule", did: "the schedule was paused", parse: pauseSchedule},
	"pause":           {does: "pause the account", did: "the account was paused", parse: ofAccount(verbs.Pause.Spec, "accounts", "pause")},
	"resume":          {does: "resume the account", did: "the account was resumed", parse: ofAccount(verbs.Resume.Spec, "accounts", "resume")},
	"correct":         {does: "correct an answer", did: "the answer was corrected", parse: correct, timeout: planWithin},
	"resolve":         {does: "answer a review", did: "the review was answered", parse: resolve, timeout: planWithin},
	"retire":          {does: "retire a proxy", did: "the proxy was retired", parse: retire},
	"reinstate":       {does: "reinstate a proxy", did: "the proxy was reinstated", parse: reinstate},
	"dead-requeue":    {does: "publish a dead letter again", did: "the dead letter was published again", parse: ofLetter(verbs.DeadRequeue.Spec, "requeue")},
	"dead-correct":    {does: "publish a corrected command", did: "the corrected command was published", parse: correctLetter},
	"dead-drop":       {does: "remove a dead letter", did: "the dead letter was removed", parse: ofLetter(verbs.DeadDrop.Spec, "drop")},
	"webhook-test":    {does: "send a test event", did: "a test event was sent", parse: testWebhook, timeout: planWithin, unsigned: true},
	"webhook-replay":  {does: "deliver events again", did: "events are delivered again", parse: replayWebhook},
}

// approve is the parser for the approval of a plan. The change reports how many renewals
// were published, and their cost.
func approve(form func(string) string) (changeFunc, []string, error) {
	do, words, err := byID(verbs.Approve.Spec, "plan", "schedules", "approve")(form)
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, a Account, by signature) (string, error) {
		plan, _ := approvalOf(ctx, a.Ledger(), form("id")) // an error is ignored, because a plan may be approved even if its row is unreadable
		text, err := do(ctx, a, by)
		if err != nil || plan == nil || text != "" {
			return text, err
		}
		return fmt.Sprintf("%s published, about %s.", english.Plural(plan.All, "renewal", ""), plan.Cost), nil
	}, words, nil
}

func pauseSchedule(form func(string) string) (changeFunc, []string, error) {
	q := map[string]any{"schedule": form("id")}
	do, hours := requestChange(verbs.SchedulePause.Spec, q), form("hours")
	if hours == "" {
		return do, []string{"schedules", "pause", form("id")}, nil
	}
	n, err := strconv.ParseInt(hours, 10, 32)
	if err != nil || n < 1 || n > 24*365 {
		return nil, nil, fmt.Errorf("for %q hours: use a whole number, or leave it empty", hours)
	}
	until := time.Duration(n) * time.Hour
	return func(ctx context.Context, a Account, by signature) (string, error) {
		q["until"] = by.at.Add(until).UTC()
		return do(ctx, a, by)
	}, []string{"schedules", "pause", form("id"), "--until", until.String()}, nil
}

// resolve is the parser for an answer to the review of an operation, or of one line of it.
func resolve(form func(string) string) (changeFunc, []string, error) {
	q := map[string]any{"id": form("id")}
	command := []string{"reviews", "resolve", form("id")}
	switch form("answer") {
	case "charged":
		cents, err := centsOf(form("amount"))
		if err != nil {
			return nil, nil, err
		}
		q["charged"], q["charged_cents"] = true, cents
		command = append(command, "--charged", fact.Decimal(cents))
		if form("sure") == "yes" {
			q["confirm_cents"] = cents
			command = append(command, "--confirm-amount", fact.Decimal(cents))
		}
		if order := form("order"); order != "" {
			q["order_no"] = order
			command = append(command, "--order", order)
		}
	case "not_charged", "send_again":
		q["charged"] = false
		command = append(command, "--not-charged")
		if form("sure") == "yes" {
			q["against_evidence"] = true
			command = append(command, "--against-evidence")
		}
		if form("answer") == "send_again" {
			q["send_again"] = true
			command = append(command, "--send-again")
		}
	default:
		return nil, nil, errors.New("choose what the provider did: it charged, or it charged nothing")
	}
	if line := form("line"); line != "" {
		q["line"] = line
		command = append(command, "--line", line)
	}
	return requestChange(verbs.Resolve.Spec, q), command, nil
}

// correct is the parser for a correction of an answer to a review. The correction reverses
// the answer, or books a charge that was found later.
func correct(form func(string) string) (changeFunc, []string, error) {
	seq, err := strconv.ParseInt(form("id"), 10, 64)
	if err != nil {
		return nil, nil, errors.New("the form names no answer")
	}
	q, command := map[string]any{"corrects_seq": seq}, []string{"ledger", "record", "--corrects", form("id")}
	charge := form("kind") == fact.MovementCharge
	switch amount := form("amount"); {
	case amount == "" && charge:
		return nil, nil, errors.New("enter the amount that the provider charged, such as 12.34")
	case strings.HasPrefix(amount, "-") || strings.HasPrefix(amount, "−"):
		if charge {
			return nil, nil, fmt.Errorf("%q has a sign: enter what the provider charged, such as 12.34. To take a charge back, use “%s”", amount, takeBack)
		}
		return nil, nil, fmt.Errorf("%q has a sign: enter what is taken back, such as 12.34. To book again what was taken back too much, use “%s”", amount, chargeAgain)
	case amount != "":
		cents, err := centsOf(amount)
		if err != nil {
			return nil, nil, err
		}
		q["kind"], q["cents"] = form("kind"), cents
		command = append(command, "--kind", form("kind"), "--cents", strconv.FormatInt(cents, 10))
		if form("sure") == "yes" {
			q["confirm_cents"] = cents
			command = append(command, "--confirm-amount", strconv.FormatInt(cents, 10))
		}
	}
	if line := form("line"); line != "" {
		q["line"] = line
		command = append(command, "--line", line)
	}
	return requestChange(verbs.Record.Spec, q), command, nil
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
	Back          string
}

// showAnswerAgain shows an answer that was not accepted. If the answer looks like a mistake, it
// asks to confirm the answer. Otherwise it shows the form with the reason.
func (s *operationPages) showAnswerAgain(q accountRequest, form func(string) string, why error) {
	typed := answerForm{Answer: form("answer"), Amount: form("amount"), Order: form("order"), Line: form("line"), Reason: form("reason"), Wrong: why.Error()}
	if !errors.Is(why, ErrUnconfirmed) {
		s.showOperation(q, form("id"), http.StatusUnprocessableEntity, typed)
		return
	}
	ctx, l := q.Context(), q.account.Ledger()
	b, err := l.Money.Balance(ctx, q.account.AccountName())
	var of operationView
	if err == nil {
		err = s.readOperation(ctx, q.account, form("id"), &of)
	}
	if err != nil {
		s.frame.broken(q, err)
		return
	}
	v := confirmView{Change: "resolve", Charged: typed.Answer == "charged", Wallet: b.WalletCents, After: b.WalletCents, Currency: b.Currency, Back: to(q.account.AccountName(), "operation", "id", form("id")) + "#review", Fields: map[string]string{}}
	v.Why = confirmReason(why)
	for _, name := range []string{"id", "answer", "amount", "order", "line", "reason", "back"} {
		v.Fields[name] = form(name)
	}
	for _, c := range of.Choices {
		if c.ProxyID == typed.Line {
			v.Expected = c.Expected
		}
	}
	if v.Charged {
		v.Cents, _ = centsOf(typed.Amount) // valid, because the runner has parsed it
		v.After -= v.Cents
	}
	for _, x := range of.Lines { // the wallet balance already excludes money in suspense
		if x.State == fact.LineUnresolved && (typed.Line == "" || x.ProxyID == typed.Line) {
			v.After += x.ChargedCents - x.RefundedCents
		}
	}
	s.frame.showAs(q, "confirm", "Confirm the answer", http.StatusUnprocessableEntity, v)
}

// showCorrectionAgain asks to confirm a correction that looks like a mistake.
func (s *operationPages) showCorrectionAgain(q accountRequest, form func(string) string, why error) {
	b, err := q.account.Ledger().Money.Balance(q.Context(), q.account.AccountName())
	if err != nil {
		s.frame.broken(q, err)
		return
	}
	v := confirmView{Change: "correct", Charged: true, Wallet: b.WalletCents, Currency: b.Currency, Why: confirmReason(why), Back: localPath(form("back")), Fields: map[string]string{}}
	for _, name := range []string{"id", "operation", "amount", "kind", "line", "reason", "back"} {
		v.Fields[name] = form(name)
	}
	v.Cents, _ = centsOf(form("amount")) // valid, because the runner has parsed it
	v.After = v.Wallet - v.Cents
	s.frame.showAs(q, "confirm", "Confirm the correction", http.StatusUnprocessableEntity, v)
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

func retire(form func(string) string) (changeFunc, []string, error) {
	return requestChange(verbs.Retire.Spec, map[string]any{"proxy_ids": []string{form("id")}}), []string{"proxies", "retire", form("id")}, nil
}

func reinstate(form func(string) string) (changeFunc, []string, error) {
	return requestChange(verbs.Retire.Spec, map[string]any{"proxy_ids": []string{form("id")}, "undo": true}), []string{"proxies", "retire", form("id"), "--undo"}, nil
}

// changedView describes what was changed, or why nothing was changed.
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

func (s *operationPages) change(q accountRequest) {
	c, known := changes[q.PathValue("what")]
	name := q.account.AccountName()
	switch {
	case !known:
		s.frame.fail(q.to, q.Request, q.session, http.StatusNotFound, "There is no such change.", nil)
		return
	case !q.session.MayChange(name):
		s.frame.fail(q.to, q.Request, q.session, http.StatusForbidden, "You are signed in as a viewer: nothing was changed.", nil)
		return
	}
	form := func(field string) string {
		if field == "id" || field == "line" || field == "command_id" || field == "operation" { // ids are opaque, so spaces may be part of them
			return q.PostFormValue(field)
		}
		return strings.TrimSpace(q.PostFormValue(field))
	}
	v := s.frame.view(q.session, "Change", "")
	v.Account = name
	out := changedView{Does: c.does, About: cmp.Or(form("operation"), form("id"), form("command_id")), Back: localPath(form("back"))}
	do, command, err := c.parse(form)
	reason := form("reason")
	if err == nil && reason == "" && !c.unsigned {
		err = errors.New("a reason is required: it is kept with your name")
	}
	code := http.StatusOK
	if err == nil {
		command = c.signed(command, q.session.Name, reason)
		v.Command = shell(append([]string{"perennial"}, append(command, "--account", name)...))
		out.Made = publishedID(q, form)
		out.Warning, err = s.do(q.Context(), q, c, do, reason)
	}
	if out.Done = err == nil; out.Done {
		out.Does = c.did
	} else {
		out.Why, code = err.Error(), http.StatusUnprocessableEntity
	}
	if out.Unknown = errors.Is(err, ErrNoAnswer); out.Unknown {
		code = http.StatusGatewayTimeout
	}
	if err != nil && s.showFormAgain(q, form, do != nil, err) {
		return
	}
	s.Log.WithField("account", name).WithField("by", q.session.Name).WithField("change", q.PathValue("what")).WithField("done", out.Done).Info("a change was asked for on the pages")
	v.Data = out
	s.frame.page(q.to, q.Request, "changed", code, v)
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

// showFormAgain shows the form of a failed change again, with the reason. It returns false if
// the form's page cannot show the form again. understood means that the form was valid.
func (s *operationPages) showFormAgain(q accountRequest, form func(string) string, understood bool, why error) bool {
	_, errNone := q.account.Ledger().Operations.Operation(q.Context(), form("id"))
	switch {
	case q.PathValue("what") == "dead-correct" && understood:
		s.showLetterAgain(q, form, why)
	case q.PathValue("what") == "correct" && errors.Is(why, ErrUnconfirmed):
		s.showCorrectionAgain(q, form, why)
	case q.PathValue("what") == "correct" && form("operation") != "" && !errors.Is(why, ErrNoAnswer):
		s.showOperation(q, form("operation"), http.StatusUnprocessableEntity, answerForm{
			Seq: form("id"), Kind: form("kind"), Amount: form("amount"), Line: form("line"), Reason: form("reason"), Wrong: why.Error(),
		})
	case q.PathValue("what") == "resolve" && errNone == nil && !errors.Is(why, ErrNoAnswer):
		s.showAnswerAgain(q, form, why)
	default:
		return false
	}
	return true
}

// signed adds the person's name and the reason to a CLI command.
func (c change) signed(command []string, by, reason string) []string {
	if c.unsigned {
		return command
	}
	return append(command, "--by", by, "--reason", reason)
}

// do makes a change on behalf of the signed-in person.
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
