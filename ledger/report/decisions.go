package report

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

// Decision is an operator's decision, taken from the fact that records it.
type Decision struct {
	Seq    int64     `json:"seq"`
	Time   time.Time `json:"time"`
	Fact   string    `json:"fact"`
	About  string    `json:"about"`          // an operation, command, proxy, order, schedule, dead letter or scope of a pause
	By     string    `json:"by"`             // as given in the request
	User   string    `json:"user,omitempty"` // the NATS user, as the NATS server reported it
	Reason string    `json:"reason"`
	// Outcome is the answer to a review (charged, not_charged), the movement of a record
	// (top-up, external, charge, refund), or what was decided about a schedule's run (asked,
	// approved, declined).
	Outcome string `json:"outcome,omitempty"`
	Cents   *int64 `json:"amount_cents,omitempty"`
	// OperationID and ProxyID are the parts of About for an answer to a review.
	OperationID string `json:"operation_id,omitempty"`
	ProxyID     string `json:"proxy_id,omitempty"`
	// CorrectsSeq is the row that a record reverses or corrects.
	CorrectsSeq int64 `json:"corrects_seq,omitempty"`
	// Account is the account of the books, for a record that reverses spending or a top-up, or another reversal.
	Account string `json:"account,omitempty"`
}

// A row repeats an adjacent row if both are the same answer to a plan. Such an answer has one row
// for each run that found the plan.
func (d *Decision) repeats(other Decision) bool {
	return d.Fact == fact.SweepFinished{}.FactType() && d.Fact == other.Fact && d.About == other.About && max(d.Seq-other.Seq, other.Seq-d.Seq) == 1
}

const decisionsAtOnce = 5000

// Decisions calls yield for the decisions of a period, oldest first. An answer to a plan
// counts once.
func (l Books) Decisions(ctx context.Context, p Period, yield func(Decision) error) error {
	after, err := l.SeqAt(ctx, p.From)
	last := int64(math.MaxInt64)
	if err == nil && !p.To.IsZero() {
		last, err = l.SeqAt(ctx, p.To)
	}
	var before Decision
	for err == nil && after < last {
		var rows []chain.Row
		rows, err = l.Rows(ctx, after, int(min(decisionsAtOnce, last-after)))
		if err != nil || len(rows) == 0 {
			return err
		}
		for _, r := range rows {
			after = r.Seq
			d, err := DecisionOf(r)
			if err == nil && d.By != "" && !d.repeats(before) {
				err = yield(d)
			}
			before = d
			if err != nil {
				return err
			}
		}
	}
	return err
}

// DecisionTypes is the condition of the index journal_decisions: the fact types that
// DecisionOf reads.
const DecisionTypes = `(type = 'command.released' OR type = 'command.cancelled' OR type = 'operation.resolved'
	OR type = 'proxy.retired' OR type = 'proxy.reinstated' OR type = 'proxy.revealed' OR type = 'account.paused' OR type = 'account.resumed'
	OR type = 'ledger.recorded' OR type = 'sweep.planned' OR type = 'sweep.finished' OR type = 'schedule.paused' OR type = 'schedule.resumed'
	OR type = 'dead.requeued' OR type = 'dead.dropped')`

// DecisionsBefore lists up to limit decisions before a journal sequence, newest first. If before
// is 0, the list starts with the newest decision. next is the sequence to pass for the next page.
// It is 0 after the last page. Archived decisions are left out.
func (l Books) DecisionsBefore(ctx context.Context, before int64, limit int) (all []Decision, next int64, err error) {
	if before <= 0 {
		before = 1 << 62
	}
	rows, err := sqlite.Collect(sqlite.Query(ctx, l.DB, `SELECT `+chain.Columns+` FROM journal WHERE seq < ? AND `+DecisionTypes+` ORDER BY seq DESC LIMIT +?`, before, decisionsAtOnce), chain.Scan)
	var after Decision
	for _, r := range rows {
		d, bad := DecisionOf(r)
		switch {
		case bad != nil:
			return all, 0, bad
		case d.By == "", d.repeats(after):
		case len(all) == limit:
			return all, next, err
		default:
			all = append(all, d)
		}
		next, after = r.Seq, d
	}
	if len(rows) < decisionsAtOnce {
		next = 0
	}
	return all, next, err
}

// AnsweredAfter reports whether a review was answered after an instant.
func (l Books) AnsweredAfter(ctx context.Context, at time.Time) (bool, error) {
	seq, err := l.SeqAt(ctx, at)
	if err != nil {
		return false, err
	}
	return sqlite.Value[bool](l.DB.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM journal WHERE seq > ? AND type = 'operation.resolved' AND `+DecisionTypes+`)`, seq))
}

// DecisionOf returns the decision in a row. By is empty if the row contains no decision.
func DecisionOf(r chain.Row) (d Decision, err error) {
	if !strings.Contains(r.Data, `"by":"`) && !strings.Contains(r.Data, `"detail":"by `) {
		return d, nil
	}
	f, err := fact.Decode(r.Type, []byte(r.Data))
	if err != nil {
		return d, err
	}
	d = Decision{Seq: r.Seq, Time: r.Instant(), Fact: r.Type, About: r.Operation}
	var signed struct{ By, User, Reason string }
	if err := json.Unmarshal([]byte(r.Data), &signed); err != nil {
		return d, err
	}
	if signed.By != "" {
		d.sign(signed.By, signed.User, signed.Reason)
	}
	d.ofCommands(f)
	d.ofTheAccount(f)
	return d, nil
}

func (d *Decision) sign(by, user, reason string) { d.By, d.User, d.Reason = by, user, reason }

func (d *Decision) ofCommands(f fact.Fact) {
	switch f := f.(type) {
	case fact.CommandReleased:
		if f.Automatic {
			d.sign("", "", "")
		}
	case fact.OperationResolved:
		d.Outcome, d.OperationID, d.ProxyID = f.Outcome, f.OperationID, f.ProxyID
		if f.ChargedCents > 0 {
			d.Cents = &f.ChargedCents
		}
		if f.ProxyID != "" {
			d.About += " " + f.ProxyID
		}
	case fact.DeadRequeued:
		d.About = letter(f.LetterSeq)
	case fact.DeadDropped:
		d.About = letter(f.LetterSeq)
	}
}

// ofTheAccount describes decisions about pauses, money and schedules. The facts of a pause
// say in their text who decided.
func (d *Decision) ofTheAccount(f fact.Fact) {
	switch f := f.(type) {
	case fact.AccountPaused:
		if by, reason, ok := signedDetail(f.Detail, f.User); ok && f.Cause == causePerson {
			d.sign(by, f.User, reason)
			d.About = f.Scope
		}
	case fact.AccountResumed:
		if by, reason, ok := signedDetail(f.Detail, f.User); ok {
			d.sign(by, f.User, reason)
			if d.About = f.Scope; f.Cause != causePerson {
				d.About += ", paused because of " + f.Cause
			}
		}
	case fact.LedgerRecorded:
		d.Outcome, d.Cents, d.About, d.CorrectsSeq, d.Account = f.Movement, &f.AmountCents, cmp.Or(f.OperationID, f.OrderNo), f.Corrects, f.Account
		if f.ProxyID != "" {
			d.About += " " + f.ProxyID
		}
	case fact.SweepPlanned:
		d.About, d.Outcome = f.Schedule, "asked"
	case fact.SchedulePaused:
		d.About = f.Schedule
	case fact.ScheduleResumed:
		d.About = f.Schedule
	case fact.SweepFinished:
		d.About, d.Outcome = f.Schedule+" "+f.Plan, "approved"
		if f.Abandoned {
			d.Outcome = "declined"
		}
	}
}

// What describes the decision in words, such as "released" or "paused the schedule".
func (d *Decision) What() string {
	back := fact.LedgerRecorded{Movement: d.Outcome, Account: d.Account}.TakesBack()
	switch does := does[d.Fact]; {
	case d.Fact == fact.SweepFinished{}.FactType():
		return d.Outcome + " the plan"
	case back != "": // no money was put into the wallet, or spent
		return "took back: " + back
	case d.Fact == fact.SweepPlanned{}.FactType(), d.Outcome == "":
		return cmp.Or(does, d.Fact)
	default:
		return cmp.Or(does, d.Fact) + ": " + strings.ReplaceAll(d.Outcome, "_", " ")
	}
}

var does = map[string]string{
	fact.CommandReleased{}.FactType():   "released",
	fact.CommandCancelled{}.FactType():  "cancelled",
	fact.OperationResolved{}.FactType(): "answered the review",
	fact.ProxyRetired{}.FactType():      "retired the proxy",
	fact.ProxyReinstated{}.FactType():   "reinstated the proxy",
	fact.ProxyRevealed{}.FactType():     "revealed the credentials",
	fact.AccountPaused{}.FactType():     "paused the account",
	fact.AccountResumed{}.FactType():    "resumed the account",
	fact.LedgerRecorded{}.FactType():    "booked",
	fact.SweepPlanned{}.FactType():      "requested a run",
	fact.SweepFinished{}.FactType():     "answered the plan",
	fact.SchedulePaused{}.FactType():    "paused the schedule",
	fact.ScheduleResumed{}.FactType():   "resumed the schedule",
	fact.DeadRequeued{}.FactType():      "requeued",
	fact.DeadDropped{}.FactType():       "dropped",
}

func letter(seq uint64) string { return "dead letter " + strconv.FormatUint(seq, 10) }

// causePerson is the cause of a pause that an operator requested (see jobs/decide).
const causePerson = "person"

// signedDetail parses "by NAME: REASON". NAME is a result of fact.Signed. The user is removed
// from it.
func signedDetail(detail, user string) (by, reason string, ok bool) {
	rest, ok := strings.CutPrefix(detail, "by ")
	if !ok {
		return "", "", false
	}
	by, reason, ok = strings.Cut(rest, ": ")
	return strings.TrimSuffix(by, fact.Signed("", user)), reason, ok
}
