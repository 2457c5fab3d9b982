// The verbs of an account's NATS service.

package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"perennial/jobs"
	"perennial/jobs/command"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/queue"
)

// Verbs of perennial.svc.<account>.<verb>: the command line, the dashboard and
// any NATS client ask the same.
const (
	VerbStatus  = "status"
	VerbStates  = "states"
	VerbWait    = "wait"
	VerbLines   = "lines"
	VerbList    = "list"
	VerbBalance = "balance"
	VerbRelease = "release"
	VerbCancel  = "cancel"
	VerbRetry   = "retry"
	VerbResolve = "resolve"
	VerbPause   = "pause"
	VerbResume  = "resume"
	VerbShow    = "show"
	VerbSweeps  = "sweeps"
	VerbPlan    = "plan"
	VerbSweep   = "sweep"
	VerbApprove = "approve"
	VerbRetire  = "retire"
	VerbProxies = "proxies"

	VerbForecast = "forecast"

	VerbSchedulePause  = "schedule-pause"
	VerbScheduleResume = "schedule-resume"

	VerbReveal      = "reveal"
	VerbDeadRequeue = "dead-requeue"
	VerbDeadDrop    = "dead-drop"

	VerbReconcile = "reconcile"
	VerbRecord    = "record"
	VerbEvidence  = "evidence"

	VerbOrder = string(queue.KindOrderCreate)
	VerbRenew = string(queue.KindProxyRenew)
)

// CodeNotFound is the error code of an id that the account does not know.
const CodeNotFound = "not_found"

// CodeUnconfirmed is the error code of a change that looks like a slip: the request has to
// say that it is meant.
const CodeUnconfirmed = "unconfirmed"

// OperatorRequest is an operator's change of one command or operation. ID is of either,
// and one of the other two says of which: commands of before may have an operation's id.
type OperatorRequest struct {
	ID          string `json:"id,omitempty"`
	CommandID   string `json:"command_id,omitempty"`
	OperationID string `json:"operation_id,omitempty"`

	By     string `json:"by"`
	Reason string `json:"reason"`
}

func (q OperatorRequest) check() error {
	if named := []string{q.ID, q.CommandID, q.OperationID}; len(slices.DeleteFunc(named, func(id string) bool { return id == "" })) > 1 {
		return errors.New("say one of id, command_id and operation_id")
	}
	return nil
}

// RetryRequest asks again for what ended with nothing charged.
type RetryRequest struct {
	OperatorRequest

	// UnlessRepeated refuses what was cancelled, what was asked again before, and a renewal
	// whose proxy a later command renews.
	UnlessRepeated bool `json:"unless_repeated,omitempty"`
}

// Named is the request of an id that is of what as says.
func (q OperatorRequest) Named(id string, as inspect.As) OperatorRequest {
	switch as {
	case inspect.AsCommand:
		q.CommandID = id
	case inspect.AsOperation:
		q.OperationID = id
	default:
		q.ID = id
	}
	return q
}

// of is the id that the request names, and what it is of.
func (q OperatorRequest) of() (id string, as inspect.As) {
	switch {
	case q.CommandID != "":
		return q.CommandID, inspect.AsCommand
	case q.OperationID != "":
		return q.OperationID, inspect.AsOperation
	}
	return q.ID, ""
}

// ListRequest asks for operations. Without All it is for those that have not ended.
type ListRequest struct {
	All    bool              `json:"all"`
	Limit  int               `json:"limit"`
	State  string            `json:"state,omitempty"`
	Kind   string            `json:"kind,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Since  time.Time         `json:"since,omitzero"`
}

func (q ListRequest) check() error { return notNegative("limit", q.Limit) }

// notNegative refuses a number that would otherwise be read as if it were left out.
func notNegative(field string, n int) error {
	if n < 0 {
		return fmt.Errorf("%s is %d and must be 0 or more", field, n)
	}
	return nil
}

func (q ListRequest) query() inspect.ListQuery {
	return inspect.ListQuery{
		Unfinished: !q.All, State: fact.State(q.State), Kind: fact.Kind(q.Kind), Labels: q.Labels, Since: q.Since, Limit: min(max(q.Limit, 1), MaxListed),
	}
}

// MaxListed is how many operations one request may list.
const MaxListed = 10_000

// StatesRequest asks where commands stand. Hashes, beside the ids, asks for the
// state of that content; Messages, the hashes of the messages as they were published,
// also finds what the intake refused as it read it (jobs.StateOf).
type StatesRequest struct {
	IDs      []string `json:"ids"`
	Hashes   []string `json:"hashes,omitempty"`
	Messages []string `json:"messages,omitempty"`
}

// of is the hash of an id, "" where the list has none.
func (q StatesRequest) of(hashes []string, i int) string {
	if len(hashes) == 0 {
		return ""
	}
	return hashes[i]
}

// RecordAnswer is a record as it is booked.
type RecordAnswer struct {
	Seq   int64  `json:"seq"`  // its row of the journal, by which it is taken back
	Kind  string `json:"kind"` // top-up, external, charge or refund
	Cents int64  `json:"cents"`
}

// ChangedAnswer is the answer to a verb that changes something: how much it changed.
type ChangedAnswer struct {
	Changed  int    `json:"changed"`
	Currency string `json:"currency,omitempty"` // of a record, or of the wallet
	Warning  string `json:"warning,omitempty"`  // of a record that was booked all the same
	// Record is what was recorded, now or before under the same id.
	Record *RecordAnswer `json:"record,omitempty"`
	// WalletCents is the wallet of the book after an answer to a review.
	WalletCents *int64 `json:"wallet_cents,omitempty"`
}

func (a *account) verbs() map[string]verb {
	return map[string]verb{
		VerbStatus: answer(func(ctx context.Context, q OperatorRequest) (inspect.CommandStatus, error) {
			id, as := q.of()
			return inspect.StatusAs(ctx, a.Ledger(), id, as)
		}),
		VerbStates: answer(a.states),
		VerbWait:   answer(a.wait),
		VerbLines:  answer(a.lines),
		VerbList: answer(func(ctx context.Context, q ListRequest) ([]inspect.OperationStatus, error) {
			return inspect.List(ctx, a.Ledger(), q.query())
		}),
		VerbBalance: answer(func(ctx context.Context, _ struct{}) (ledger.Balance, error) {
			p, err := a.Ledger().Position(ctx, a.Name)
			return p.WithUnbooked(), err
		}),
		VerbRelease: answer(changing(a.runner.Release)),
		VerbCancel:  answer(changing(a.runner.Cancel)),
		VerbRetry:   answer(a.retry),
		VerbResolve: answer(a.resolve),
		VerbPause: answer(func(ctx context.Context, q OperatorRequest) (ChangedAnswer, error) {
			return ChangedAnswer{Changed: 1}, a.runner.PauseByHand(ctx, asked(ctx, q.By), q.Reason)
		}),
		VerbResume: answer(func(ctx context.Context, q OperatorRequest) (ChangedAnswer, error) {
			n, err := a.runner.ResumeByHand(ctx, asked(ctx, q.By), q.Reason)
			return ChangedAnswer{Changed: n}, err
		}),
		VerbShow:    answer(a.show),
		VerbSweeps:  a.bound(answer(a.sweeps)),
		VerbPlan:    a.bound(answer(a.plan)),
		VerbSweep:   a.bound(answer(a.sweepNow)),
		VerbApprove: a.bound(answer(a.approve)),
		VerbRetire:  answer(a.retire),
		VerbProxies: answer(a.proxies),

		VerbForecast: a.bound(answer(a.forecast)),

		VerbSchedulePause:  a.bound(answer(a.pauseSchedule)),
		VerbScheduleResume: a.bound(answer(a.resumeSchedule)),

		VerbReveal:      answer(a.reveal),
		VerbDeadRequeue: answer(a.deadRequeue),
		VerbDeadDrop:    answer(a.deadDrop),

		VerbOrder: a.carryOut(queue.KindOrderCreate),
		VerbRenew: a.carryOut(queue.KindProxyRenew),

		VerbReconcile: a.bound(answer(a.reconcile)),
		VerbRecord:    answer(a.record),
		VerbEvidence:  answer(a.evidence),
	}
}

// bound refuses a verb that needs the provider's account before that was read.
func (a *account) bound(v verb) verb {
	do := v.do
	v.do = func(ctx context.Context, data []byte) ([]byte, error) {
		a.mu.Lock()
		ready, state := a.sweeper != nil, a.state
		a.mu.Unlock()
		if !ready {
			return nil, &queue.ServiceError{Code: "refused", Description: "the account does not work yet: " + state}
		}
		return do(ctx, data)
	}
	return v
}

// changing adapts a person's change of operations.
func changing(do func(ctx context.Context, id, by, reason string, as ...inspect.As) (int, error)) func(context.Context, OperatorRequest) (ChangedAnswer, error) {
	return func(ctx context.Context, q OperatorRequest) (ChangedAnswer, error) {
		id, as := q.of()
		n, err := do(ctx, id, asked(ctx, q.By), q.Reason, as)
		return ChangedAnswer{Changed: n}, err
	}
}

func (a *account) retry(ctx context.Context, q RetryRequest) (ChangedAnswer, error) {
	if q.UnlessRepeated {
		return changing(a.runner.RetryUnrepeated)(ctx, q.OperatorRequest)
	}
	return changing(a.runner.Retry)(ctx, q.OperatorRequest)
}

// asked is the name under which a change is made: that of the request, else the NATS
// user that asks.
func asked(ctx context.Context, by string) string { return cmp.Or(by, fact.UserOf(ctx)) }

// MaxStates is how many commands one request may ask about.
const MaxStates = 1000

// states gives the states of commands; an unknown id is left out.
func (a *account) states(ctx context.Context, q StatesRequest) (map[string]string, error) {
	if len(q.IDs) > MaxStates {
		return nil, &command.RefusedError{Reason: fmt.Sprintf("%d ids of at most %d", len(q.IDs), MaxStates)}
	}
	for _, hashes := range [][]string{q.Hashes, q.Messages} {
		if len(hashes) > 0 && len(hashes) != len(q.IDs) {
			return nil, &command.RefusedError{Reason: "hashes and messages must be as many as ids"}
		}
	}
	out := make(map[string]string, len(q.IDs))
	for i, id := range q.IDs {
		state, err := inspect.StateOf(ctx, a.Ledger(), id, q.of(q.Hashes, i), q.of(q.Messages, i))
		if errors.Is(err, ledger.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out[id] = state
	}
	return out, nil
}

// AccountView is the account as `account show` prints it.
type AccountView struct {
	Account     string `json:"account"`
	AccountID   string `json:"account_id"`
	Environment string `json:"environment"`
	BaseURL     string `json:"base_url"`
	AppID       string `json:"app_id"`
	Currency    string `json:"currency"`
	// Status, Email and CreatedAt are the provider's, as the start read them.
	Status       string         `json:"status"`
	Email        string         `json:"email"`
	CreatedAt    *time.Time     `json:"created_at"`
	NotReady     string         `json:"not_ready,omitempty"`
	ShortOfMoney bool           `json:"short_of_money"`
	Paused       []ledger.Pause `json:"paused"`
	Published    uint64         `json:"published_seq"`
	Head         ledger.Head    `json:"head"`
	// Reconciled is the last comparison with the provider of this run.
	Reconciled jobs.LastReconciliation `json:"reconciled"`
	// Provider is how the provider answered this runner in the last minutes.
	Provider jobs.ProviderRecent `json:"provider"`
}

func (a *account) show(ctx context.Context, _ struct{}) (AccountView, error) {
	b, err := a.Ledger().Binding(ctx)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return AccountView{}, err
	}
	v := AccountView{
		Account: a.Name, AccountID: b.AccountID, Environment: b.Environment, BaseURL: b.BaseURL, AppID: a.Client.AppID(), Currency: b.Currency, NotReady: a.notReady(),
		Provider: a.heardLately(),
	}
	if v.Paused, err = a.Ledger().Pauses(ctx); err != nil {
		return v, err
	}
	if v.Paused == nil {
		v.Paused = []ledger.Pause{}
	}
	v.Head.Seq, v.Head.Hash, err = a.Ledger().Head(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.runner != nil {
		at := a.runner.ProviderAccount()
		v.Status, v.Email = at.Status, at.Email
		if !at.CreatedAt.IsZero() {
			v.CreatedAt = &at.CreatedAt
		}
	}
	if a.host.Embedded == nil {
		v.Published = uint64(v.Head.Seq) // a standby has its rows from there
	}
	if a.Relay != nil {
		v.Published, v.ShortOfMoney = a.Relay.Published(), a.runner.ShortOfMoney()
		v.Reconciled = a.runner.LastReconciliation()
	}
	return v, err
}
