package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize/english"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/schedules"
	"perennial/schedules/plans"
)

// lettersWithin limits a page's wait for the number of dead letters.
const lettersWithin = 250 * time.Millisecond

// accountNeeds is what needs an operator in one account. Data from the ledger and the number
// of dead letters are current. Data that only the runner has comes from the runner's last
// answer.
type accountNeeds struct {
	verbs.Needs

	Known     bool // the runner has answered; otherwise the total is unknown
	Asked     bool // the runner has been asked and has not answered yet
	Pauses    []tables.Pause
	Schedules []schedules.Status
	NoRunner  string // why the status of the schedules is unknown; "" if it is known

	reviews []tables.Review    // the oldest reviews
	refused []tables.Rejection // the latest refused commands
}

// countedNeeds maps an account to its needs, as counted for one request. Only the goroutine that
// handles the request uses it.
type countedNeeds map[string]accountNeeds

type countedNeedsKey struct{}

// withNeeds returns a context in which needs counts each account only once.
func withNeeds(ctx context.Context) context.Context {
	return context.WithValue(ctx, countedNeedsKey{}, countedNeeds{})
}

func (s *insight) needs(ctx context.Context, a Account) (accountNeeds, error) {
	counted, ok := ctx.Value(countedNeedsKey{}).(countedNeeds)
	if n, known := counted[a.AccountName()]; known {
		return n, nil
	}
	n, err := s.countNeeds(ctx, a)
	if err == nil && ok {
		counted[a.AccountName()] = n
	}
	return n, err
}

func (s *insight) countNeeds(ctx context.Context, a Account) (n accountNeeds, err error) {
	glance, shown := s.glance(ctx, a), askNow(ctx, s.figures, a, verbs.Show, struct{}{})
	n.Known, n.Asked = glance.problem() == "", glance.Pending()
	if n.Known {
		n.Uncovered, n.Late, n.LateFirst = glance.Value.Needs.Uncovered, glance.Value.Needs.Late, glance.Value.Needs.LateFirst
		n.Findings = findings(glance.Value, s.compared(a, shown))
	}
	if err := n.read(ctx, a.Ledger(), s.Clock()); err != nil {
		return n, err
	}
	if n.Schedules, n.NoRunner, err = s.sweeps(ctx, a); err != nil {
		return n, err
	}
	n.countSchedules()
	limited, cancel := context.WithTimeout(ctx, lettersWithin)
	defer cancel()
	if letters, err := a.CountLetters(limited); err == nil {
		n.DeadLetters = &letters
	}
	n.Total = n.Sum()
	return n, nil
}

func (n *accountNeeds) read(ctx context.Context, l *ledger.Ledger, now time.Time) (err error) {
	if n.Pauses, err = l.Operations.Pauses(ctx); err != nil {
		return err
	}
	for _, p := range n.Pauses {
		if p.Until == nil {
			n.Paused++
		}
	}
	counts, err := l.Operations.StateCounts(ctx)
	if err != nil {
		return err
	}
	n.Held = counts[fact.StateHeld]
	if n.reviews, err = l.Operations.FirstReviews(ctx, needsListed); err != nil {
		return err
	}
	if n.Reviews = int64(len(n.reviews)); n.Reviews == needsListed {
		if n.Reviews, err = l.Operations.CountReviews(ctx); err != nil {
			return err
		}
	}
	since := now.Add(-verbs.RefusedFor)
	if n.refused, err = l.Operations.Rejections(ctx, since, needsListed); err != nil {
		return err
	}
	if n.Refused = int64(len(n.refused)); n.Refused == needsListed {
		n.Refused, err = l.Operations.CountRefused(ctx, since)
	}
	return err
}

// countSchedules counts what schedules need. If the runner has not answered, it counts only
// plans and pauses, which the ledger knows.
func (n *accountNeeds) countSchedules() {
	failing, skipped := n.Failing, n.OverLimit
	n.Needs = n.WithSchedules(n.Schedules)
	if n.NoRunner != "" {
		n.Failing, n.OverLimit = failing, skipped
	}
}

// findings returns how many differences from the provider the newest reconciliation found. It
// returns nil if there was no reconciliation.
func findings(v verbs.Summary, newest *comparison) *int64 {
	n := v.Needs.Findings
	if newest == nil || newest.At.IsZero() || v.Books.ComparedAt != nil && !newest.At.After(*v.Books.ComparedAt) {
		return n
	}
	if found := int64(newest.Findings); newest.OK != nil || found > 0 {
		return &found
	}
	return n // the newest reconciliation could not compare the wallet, so it refutes no earlier finding
}

// refresh updates the runner's answer about the account's schedules with newer plans, runs and
// pauses from the ledger. If the ledger has a newer run, the values that only the runner knows
// are removed, and outdated is true. If the runner has not answered, the result contains only
// what the ledger knows.
func refresh(ctx context.Context, a Account, now time.Time, answer []schedules.Status, answered bool) (rows []schedules.Status, outdated bool, err error) {
	rows = slices.Clone(answer) // all requests share the answer
	for _, configured := range a.Schedules() {
		i := slices.IndexFunc(rows, func(one schedules.Status) bool { return one.Schedule == configured.Name })
		if i < 0 && answered {
			continue // the runner does not have this schedule
		}
		if i < 0 {
			i, rows = len(rows), append(rows, unanswered(configured))
		}
		newer, err := refreshOne(ctx, a.Ledger(), now, &rows[i])
		if err != nil {
			return nil, false, err
		}
		outdated = outdated || newer
	}
	return rows, outdated, nil
}

// unanswered returns a schedule's status before the runner has answered: its configuration.
func unanswered(s plans.Schedule) schedules.Status {
	return schedules.Status{Schedule: s.Name, Account: s.Account, Cron: s.Cron, Timezone: s.Timezone}
}

// slotOrder lists the states of a run in the order in which it passes through them.
var slotOrder = []string{"", "planned", schedules.StateHeld, "finished", "missed"}

// refreshOne updates one schedule from the ledger. newer reports whether the ledger has a newer
// run.
func refreshOne(ctx context.Context, l *ledger.Ledger, now time.Time, one *schedules.Status) (newer bool, err error) {
	last, err := l.Sweeps.LastSlot(ctx, one.Schedule)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return false, err
	}
	if known := one.LastSlot; err == nil {
		newer = known == nil || last.At.After(*known) || last.At.Equal(*known) && slices.Index(slotOrder, last.State) > slices.Index(slotOrder, one.State)
	}
	if newer {
		one.LastSlot, one.State, one.Plan, one.Result, one.Why = &last.At, last.State, "", nil, ""
		if last.State == schedules.StateHeld {
			one.Plan = last.Plan
		}
	}
	paused, err := l.Sweeps.SchedulePaused(ctx, one.Schedule)
	switch {
	case errors.Is(err, ledger.ErrNotFound), err == nil && paused.Until != nil && !paused.Until.After(now):
		one.Paused = nil
	case err != nil:
		return newer, err
	default:
		if one.Paused = &paused; paused.Until == nil {
			one.NextSlot = nil
		}
	}
	return newer, nil
}

// needsListed limits how many reviews, and how many refused commands, have their own entry.
const needsListed = 10

// need is one thing that needs an operator, with the page where the operator can act.
type need struct {
	Level   string // color of its state: review or held
	Kind    string
	Subject string
	Text    string
	Action  string
	To      string // address of the page
}

type attentionView struct {
	Needs    []need
	Unknown  bool // the runner does not answer, so only the ledger's entries are listed
	Paused   []tables.Pause
	Currency string
}

// glance returns the runner's summary of the account. It omits values that take long to compute:
// a slow answer is followed by a long pause, so the page would show old values.
func (s *insight) glance(ctx context.Context, a Account) Made[verbs.Summary] {
	return askNow(ctx, s.figures, a, verbs.AtAGlance, verbs.SummaryRequest{NeedsOnly: true})
}

// badge returns the number of things that need an operator. It returns "?" if the number is
// unknown, and "" if it is 0.
func (s *insight) badge(ctx context.Context, a Account) string {
	n, err := s.needs(ctx, a)
	switch {
	case err != nil || !n.Known:
		return "?"
	case n.Total == 0:
		return ""
	}
	return strconv.FormatInt(n.Total, 10)
}

func (s *overviewPages) attention(q accountRequest) (page, error) {
	v, err := s.insight.attentionList(q.Context(), q.account)
	return page{name: "attention", title: "Needs attention", data: v}, err
}

// attentionList returns the list of what needs an operator. Each plan has an entry. The first
// needsListed reviews and the first needsListed refused commands also have entries. The list
// counts everything else.
func (s *insight) attentionList(ctx context.Context, a Account) (v attentionView, err error) {
	n, err := s.needs(ctx, a)
	if err != nil {
		return v, err
	}
	if v.Currency, err = currencyOf(ctx, a); err != nil {
		return v, err
	}
	name := a.AccountName()
	v.Unknown, v.Paused = !n.Known, n.Pauses
	v.addReviews(name, n)
	v.addRefused(name, n)
	for _, one := range n.Schedules {
		if one.Plan != "" {
			v.Needs = append(v.Needs, need{"held", "Approval", one.Schedule, planText(ctx, a, one.Plan), "Review plan", to(name, "schedule", "id", one.Schedule)})
		}
	}
	for _, one := range n.Schedules {
		if one.StillOverLimit > 0 {
			v.Needs = append(v.Needs, need{"held", "Skipped", one.Schedule, one.Reason(), "Open", to(name, "schedule", "id", one.Schedule) + "#skipped"})
		}
	}
	for _, p := range n.Parts() {
		if p.Page == verbs.PageSkipped && n.NoRunner == "" || p.Page == "reviews" || p.Page == verbs.PageRefused || p.One == "plan to approve" { // not counted here, because the list shows each of them
			continue
		}
		v.Needs = append(v.Needs, need{"held", "Check", p.Text(), "", "Open", pageOf(name, p)})
	}
	return v, nil
}

// planText describes a plan that needs approval: the number of renewals, and the cost.
func planText(ctx context.Context, a Account, plan string) string {
	v, err := approvalOf(ctx, a.Ledger(), plan)
	if err != nil || v == nil {
		return "The plan needs approval."
	}
	return strings.Join(append([]string{"The plan needs approval: " + v.Text() + "."}, v.Notes...), " ")
}

// pageOf returns the address of the page for one kind of need.
func pageOf(account string, p verbs.Need) string {
	switch p.Page {
	case verbs.PageLate:
		if id, one := strings.CutPrefix(p.Command, "proxies get "); one {
			return to(account, "proxy", "id", id)
		}
		return to(account, "proxies", "within", "24h")
	case verbs.PageSkipped:
		return to(account, "schedules")
	case "proxies":
		return to(account, p.Page, "uncovered", "1")
	case "operations":
		if p.Command == "accounts show" {
			return to(account, "attention") + "#paused"
		}
		return to(account, p.Page, "state", string(fact.StateHeld))
	}
	return to(account, p.Page)
}

func (v *attentionView) addRefused(account string, n accountNeeds) {
	for _, r := range n.refused {
		v.Needs = append(v.Needs, need{"held", "Refused", r.CommandID, "The command was not accepted, and nothing was sent: " + r.Reason, "Open", to(account, "operation", "id", r.CommandID)})
	}
	if more := n.Refused - int64(len(n.refused)); more > 0 {
		v.Needs = append(v.Needs, need{"held", "Refused", fmt.Sprintf("%d more within 24 hours", more), "`perennial operations list --state rejected --since 1d` lists them.", "Audit", to(account, "log")})
	}
}

func (v *attentionView) addReviews(account string, n accountNeeds) {
	for _, r := range n.reviews {
		one := need{"review", "Review", r.OperationID, "", "Resolve", to(account, "operation", "id", r.OperationID) + "#review"}
		if r.ProxyID != "" {
			one.Subject = r.ProxyID
		}
		switch {
		case r.Ended:
			one.Text = "It was not renewed: decide whether its schedule tries again."
		case r.AtStakeCents.Or(0) > 0:
			one.Text = "Outcome unknown, up to " + fact.Amount(r.AtStakeCents.Or(0), v.Currency) + ": " + r.Reason
		default:
			one.Text = "Outcome unknown, at an unknown price: " + r.Reason
		}
		v.Needs = append(v.Needs, one)
	}
	if more := n.Reviews - int64(len(n.reviews)); more > 0 {
		v.Needs = append(v.Needs, need{"review", "Review", english.Plural(int(more), "further review", ""), "", "Open", to(account, "reviews")})
	}
}

// pauseText describes a pause: who paused, since when, until when, and why. If only one kind of
// operation is paused, it names the kind. Otherwise it names nothing, because the page already
// shows the account.
func pauseText(p tables.Pause, now time.Time) string {
	what := "paused"
	if p.Scope != decide.ScopeAccount {
		what = field(p.Scope) + "s are paused"
	}
	why := p.Detail
	if by, reason, signed := strings.Cut(strings.TrimPrefix(p.Detail, "by "), ": "); signed && p.Cause == decide.CausePerson && strings.HasPrefix(p.Detail, "by ") {
		what, why = what+" by "+by, reason
	}
	text := what + " since " + clockText(p.Since, now)
	if p.Until != nil {
		text += " until " + clockText(*p.Until, now)
	}
	if why != "" {
		text += ": " + why
	}
	return text
}

// clockText formats a time in UTC. It omits the date if the date is today.
func clockText(at, now time.Time) string {
	if at, now = at.UTC(), now.UTC(); at.Format(time.DateOnly) == now.Format(time.DateOnly) {
		return at.Format("15:04 UTC")
	}
	return at.Format("2006-01-02 15:04 UTC")
}

func pausesText(all []tables.Pause, now time.Time) string {
	texts := make([]string, 0, len(all))
	for _, p := range all {
		texts = append(texts, pauseText(p, now))
	}
	return strings.Join(texts, "; ")
}

func sendsNoRenewals(all []tables.Pause) bool {
	for _, p := range all {
		if p.Scope == decide.ScopeAccount || p.Scope == string(fact.KindRenewal) {
			return true
		}
	}
	return false
}

const (
	// reviewsShown limits the reviews on the page, which shows the oldest.
	reviewsShown = 500
	// answeredAtOnce limits the answers of one form, so that a person can see them all.
	answeredAtOnce = 100
	// answersWithin limits the time for one form's answers. It is shorter than the 30 s that
	// the server gives a request.
	answersWithin = 25 * time.Second
)

type reviewsView struct {
	Groups   []reviewGroup
	Waiting  int64
	Shown    int
	AtStake  fact.Sum // the money at risk in the shown reviews
	Currency string
}

// reviewGroup is a list of similar reviews. One answer may apply to all of them.
type reviewGroup struct {
	Code, Reason string
	Ended        bool // no money at risk: the answer decides only whether schedules try again
	Lines        bool // whether the reviews are about single proxies
	Rows         []tables.Review
	AtStake      fact.Sum
	Priced       bool // every exposure is known and not 0
}

func (s *operationPages) reviews(q accountRequest) (page, error) {
	ctx, l := q.Context(), q.account.Ledger()
	rows, err := inspect.Reviews(ctx, l, reviewsShown)
	v := reviewsView{Shown: len(rows), Waiting: int64(len(rows))}
	if err == nil && len(rows) == reviewsShown {
		v.Waiting, err = l.Operations.CountReviews(ctx)
	}
	if err == nil {
		v.Currency, err = currencyOf(ctx, q.account)
	}
	if err != nil {
		return page{}, err
	}
	for _, r := range rows {
		v.add(r)
	}
	return page{name: "reviews", title: "Reviews", data: v}, nil
}

func (v *reviewsView) add(r tables.Review) {
	v.AtStake = v.AtStake.Add(r.AtStakeCents)
	i := slices.IndexFunc(v.Groups, func(g reviewGroup) bool {
		return g.Code == r.Code && g.Reason == r.Reason && g.Ended == r.Ended && g.Lines == (r.ProxyID != "")
	})
	if i < 0 {
		i = len(v.Groups)
		v.Groups = append(v.Groups, reviewGroup{Code: r.Code, Reason: r.Reason, Ended: r.Ended, Lines: r.ProxyID != "", Priced: true})
	}
	g := &v.Groups[i]
	g.AtStake = g.AtStake.Add(r.AtStakeCents)
	g.Rows, g.Priced = append(g.Rows, r), g.Priced && r.AtStakeCents.Or(0) > 0
}

type answered struct {
	What    string // operation, and proxy if any
	Done    bool
	Unknown bool // the answer may have been booked, or may still be booked
	Why     string
	Command string
}

type answeredView struct {
	Rows []answered
	Done int
}

// resolveSeveral answers several reviews in turn. Each answer has the same effect as an answer
// on the operation's page.
func (s *operationPages) resolveSeveral(q accountRequest) (page, error) {
	name := q.account.AccountName()
	if !q.session.MayChange(name) {
		return page{}, &pageError{http.StatusForbidden, "You are signed in as a viewer: nothing was changed.", nil}
	}
	reason := strings.TrimSpace(q.PostFormValue("reason"))
	chosen := q.PostForm["review"]
	var err error
	switch {
	case len(chosen) == 0:
		err = errors.New("choose what is answered")
	case len(chosen) > answeredAtOnce:
		err = fmt.Errorf("choose %d at most at once", answeredAtOnce)
	case reason == "":
		err = errors.New("say why: the reason is kept with your name")
	}
	if err != nil {
		return page{}, &pageError{http.StatusUnprocessableEntity, "Nothing was changed: " + err.Error() + ".", nil}
	}
	ctx, cancel := context.WithTimeout(q.Context(), answersWithin)
	defer cancel()
	var v answeredView
	for _, text := range chosen {
		one := s.resolveOne(ctx, q, text, reason)
		if v.Rows = append(v.Rows, one); one.Done {
			v.Done++
		}
	}
	s.Log.WithField("account", name).WithField("by", q.session.Name).WithField("change", "resolve").WithField("done", v.Done == len(v.Rows)).Info(fmt.Sprintf("%d of %d answers were asked for on the pages and given", v.Done, len(v.Rows)))
	return page{name: "answered", title: fmt.Sprintf("%d of %d answered", v.Done, len(v.Rows)), data: v}, nil
}

// reviewKey encodes a review and its exposure for a form.
func reviewKey(r tables.Review) string {
	return url.Values{"id": {r.OperationID}, "line": {r.ProxyID}, "cents": {strconv.FormatInt(r.AtStakeCents.Or(0), 10)}}.Encode()
}

// resolveOne answers one of several reviews, identified by its reviewKey.
func (s *operationPages) resolveOne(ctx context.Context, q accountRequest, key, reason string) (one answered) {
	review, err := url.ParseQuery(key)
	if err != nil || review.Get("id") == "" {
		return answered{What: key, Why: "the form does not name a review: load the page again"}
	}
	one.What = strings.TrimSpace(review.Get("id") + " " + review.Get("line"))
	form := func(field string) string {
		switch field {
		case "id", "line":
			return review.Get(field)
		case "order":
			return ""
		case "answer":
			if q.PostFormValue("answer") == "at_stake" {
				return "charged"
			}
		case "amount":
			if cents, err := strconv.ParseInt(review.Get("cents"), 10, 64); q.PostFormValue("answer") == "at_stake" && err == nil && cents > 0 {
				return fact.Decimal(cents)
			}
		}
		return strings.TrimSpace(q.PostFormValue(field))
	}
	r, err := resolve(form)
	if err == nil && ctx.Err() != nil {
		err = errors.New("it was not asked for: the answers before it took too long")
	}
	if err == nil {
		one.Command = changes["resolve"].cli(q, r.words, reason)
		_, err = s.do(ctx, q, changes["resolve"], r.do, reason)
	}
	if one.Done = err == nil; err != nil {
		one.Why, one.Unknown = err.Error(), errors.Is(err, ErrNoAnswer)
	}
	if errors.Is(err, ErrUnconfirmed) {
		one.Why = confirmReason(err) + ". If it is right, answer again and mark that it is"
	}
	return one
}

const (
	// deadShown limits the letters on a page. deadBytes limits the bytes of commands that are
	// read for a page.
	deadShown = 200
	deadBytes = 4 << 20
	// deadText limits the bytes of a command that a page shows.
	deadText = 16 << 10
)

// Letter is a dead letter: a command that could not be read.
type Letter struct {
	Seq       uint64
	Published time.Time
	Subject   string
	Reason    string
	Bytes     int
	Text      string // the command, quoted if it is not text
}

// ErrNoLetter means that a dead letter does not exist.
var ErrNoLetter = errors.New("there is no such dead letter")

type letterView struct {
	Letter

	Cut   int    // number of bytes of the text that are not shown
	Typed string // text in the form: the command, or a correction that was not published
	Why   string // reason entered with the correction
	Wrong string // why the correction was not published
}

type deadView struct {
	Rows []Letter
	Next string // sequence after which the next page begins; "" at the end
}

// letterOf formats a letter as `perennial dead-letters show` does. It replaces characters
// that cannot be printed with spaces, and shortens a long text.
func letterOf(l Letter) letterView {
	v := letterView{Letter: l}
	text := fact.Printable(l.Text, "\n\t")
	end := min(len(text), deadText)
	for end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	v.Text, v.Cut = text[:end], len(text)-end
	v.Typed = v.Text
	return v
}

// showLetterAgain shows a form with a correction that was not published. The form says why.
func (s *operationPages) showLetterAgain(q accountRequest, form func(string) string, why error) (page, error) {
	ctx, cancel := context.WithTimeout(q.Context(), askWithin)
	defer cancel()
	v, err := readLetter(ctx, q.account, form("id"))
	if err != nil {
		return page{}, err
	}
	v.Typed, v.Why, v.Wrong = q.PostFormValue("content"), form("reason"), why.Error()
	return page{name: "letter", title: "Dead letter " + form("id"), code: http.StatusUnprocessableEntity, data: v}, nil
}

// correctLetter is the parser for corrected content, which is published in place of a dead
// letter.
func correctLetter(form func(string) string) (*request, error) {
	seq, err := strconv.ParseUint(form("id"), 10, 64)
	if err != nil {
		return nil, errors.New("the form names no dead letter")
	}
	content := []byte(form("content"))
	return &request{words: []string{"dead-letters", "requeue", form("id"), "--file", "corrected.json"}, do: func(ctx context.Context, a Account, by signature) (string, error) {
		return "", a.Requeue(ctx, seq, content, by.name, by.reason)
	}}, nil
}

func (s *operationPages) dead(q accountRequest) (page, error) {
	ctx, cancel := context.WithTimeout(q.Context(), askWithin)
	defer cancel()
	form := q.URL.Query()
	if form.Has("seq") {
		v, err := readLetter(ctx, q.account, form.Get("seq"))
		return page{name: "letter", title: "Dead letter " + form.Get("seq"), data: v}, err
	}
	var v deadView
	after, _ := strconv.ParseUint(form.Get("after"), 10, 64) // an invalid number means the first page
	read := 0
	for l, err := range q.account.Letters(ctx, after) {
		if err != nil {
			return page{}, noLetters(err)
		}
		if len(v.Rows) == deadShown || read >= deadBytes {
			v.Next = strconv.FormatUint(v.Rows[len(v.Rows)-1].Seq, 10)
			break
		}
		read += l.Bytes
		l.Text = ""
		v.Rows = append(v.Rows, l)
	}
	return page{name: "dead", title: "Dead letters", data: v}, nil
}

// letterWith finds the first dead letter whose command contains an id. It searches as many dead
// letters as a page lists.
func letterWith(ctx context.Context, a Account, id string) (seq uint64, found bool) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	looked, read := 0, 0
	for l, err := range a.Letters(ctx, 0) {
		if looked, read = looked+1, read+l.Bytes; err != nil || looked > deadShown || read > deadBytes {
			return 0, false
		}
		if command.MayHaveID([]byte(l.Text), id) {
			return l.Seq, true
		}
	}
	return 0, false
}

func readLetter(ctx context.Context, a Account, text string) (v letterView, err error) {
	seq, err := strconv.ParseUint(text, 10, 64)
	var l Letter
	if err == nil {
		l, err = a.Letter(ctx, seq)
	}
	if errors.Is(err, ErrNoLetter) || errors.Is(err, strconv.ErrSyntax) || errors.Is(err, strconv.ErrRange) {
		return v, &pageError{http.StatusNotFound, "This dead letter does not exist: it was requeued or dropped, or the number is wrong.", nil}
	}
	if err != nil {
		return v, noLetters(err)
	}
	return letterOf(l), nil
}

func noLetters(err error) error {
	return &pageError{http.StatusServiceUnavailable, "The dead letters cannot be read from NATS now: " + err.Error(), err}
}

func ofLetter(verb verbs.Spec, command string) formParser {
	return func(form func(string) string) (*request, error) {
		seq, err := strconv.ParseUint(form("id"), 10, 64)
		if err != nil {
			return nil, errors.New("the form names no dead letter")
		}
		r := newRequest(verb, "dead-letters", command)
		r.set("seq", seq, strings.TrimSpace(form("id")))
		return r, nil
	}
}
