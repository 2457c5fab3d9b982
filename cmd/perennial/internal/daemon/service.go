package daemon

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs"
	"perennial/jobs/command"
	"perennial/jobs/desk"
	"perennial/jobs/inspect"
	"perennial/jobs/reconcile"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/failpoint"
	"perennial/ledger/tables"
	"perennial/queue"
	"perennial/queue/letters"
	"perennial/queue/publish"
	"perennial/queue/service"
	"perennial/schedules"
	"perennial/upstream"
)

type answers struct{ *account }

// CodeNotFound is the error code for an id that the account does not know.
const CodeNotFound = "not_found"

// CodeUnconfirmed is the error code for a change that looks like a mistake and must be
// confirmed.
const CodeUnconfirmed = "unconfirmed"

func (a answers) verbs() []service.Verb {
	return []service.Verb{
		serve(verbs.Status, a.status),
		serve(verbs.States, a.states),
		serve(verbs.Wait, a.wait),
		serve(verbs.Lines, a.lines),
		serve(verbs.List, a.list),
		serve(verbs.Balance, a.balance),
		serve(verbs.Release, changing(a.runner.Release)),
		serve(verbs.Cancel, changing(a.runner.Cancel)),
		serve(verbs.Retry, a.retry),
		serve(verbs.Resolve, a.resolve),
		serve(verbs.Pause, a.pause),
		serve(verbs.Resume, a.resume),
		serve(verbs.Show, a.show),
		serve(verbs.AtAGlance, a.summary),
		serve(verbs.Retire, a.retire),
		serve(verbs.Proxies, a.proxies),
		serve(verbs.Reveal, a.reveal),
		serve(verbs.DeadRequeue, a.deadRequeue),
		serve(verbs.DeadDrop, a.deadDrop),
		serve(verbs.Record, a.record),
		serve(verbs.Evidence, a.evidence),
		a.bound(serve(verbs.Sweeps, a.sweeps)),
		a.bound(serve(verbs.Plan, a.plan)),
		a.bound(serve(verbs.Sweep, a.sweepNow)),
		a.bound(serve(verbs.Approve, a.approve)),
		a.bound(serve(verbs.Decline, a.decline)),
		a.bound(serve(verbs.Forecast, a.forecast)),
		a.bound(serve(verbs.Proxy, a.proxy)),
		a.bound(serve(verbs.SchedulePause, a.pauseSchedule)),
		a.bound(serve(verbs.ScheduleResume, a.resumeSchedule)),
		a.bound(serve(verbs.Reconcile, a.reconcile)),
		a.carryOut(verbs.Order.Verb),
		a.carryOut(verbs.Renew.Verb),
	}
}

func (a answers) status(ctx context.Context, q verbs.OperatorRequest) (inspect.CommandStatus, error) {
	id, as := q.Of()
	if id == "" {
		return inspect.CommandStatus{}, &service.Error{Code: "bad_request", Description: "say one of id, command_id and operation_id"}
	}
	s, err := inspect.StatusAs(ctx, a.Ledger(), id, as)
	if errors.Is(err, ledger.ErrNotFound) {
		err = cmp.Or(a.inLetter(ctx, id), err)
	}
	return s, err
}

const (
	lettersLooked = 1000 // the most dead letters that are searched for an id
	lettersWithin = 2 * time.Second
)

// inLetter searches the oldest dead letters for an id. It returns an error that says why the
// command was refused and where the dead letter is. It returns nil if none of them has the
// id, or if the dead letters cannot be read.
func (a answers) inLetter(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, lettersWithin)
	defer cancel()
	looked := 0
	for l, err := range a.letters().After(ctx, 0) {
		if looked++; err != nil || looked > lettersLooked {
			return nil
		}
		if command.MayHaveID(l.Dead.Data, id) {
			return &service.Error{Code: CodeNotFound, Description: InLetter(id, l.Seq, l.Dead.Reason)}
		}
	}
	return nil
}

// InLetter returns the message for a command that became a dead letter. The message gives the
// reason, and says how to show and requeue the dead letter.
func InLetter(id string, seq uint64, reason string) string {
	return fmt.Sprintf("command %.80q was refused: %s; see it with `perennial dead-letters show %d`, and requeue a corrected one with `perennial dead-letters requeue %[3]d --file FILE`", id, reason, seq)
}

func (a answers) list(ctx context.Context, q verbs.ListRequest) ([]inspect.OperationStatus, error) {
	return ListOperations(ctx, a.Ledger(), q)
}

// ListOperations lists operations of a ledger, most recently accepted first.
func ListOperations(ctx context.Context, l *ledger.Ledger, q verbs.ListRequest) ([]inspect.OperationStatus, error) {
	return inspect.List(ctx, l, inspect.ListQuery{
		Unfinished: !q.All, State: fact.State(q.State), Kind: fact.Kind(q.Kind), Labels: q.Labels, Since: q.Since, Limit: min(max(q.Limit, 1), verbs.MaxListed),
	})
}

func (a answers) balance(ctx context.Context, _ struct{}) (tables.Balance, error) {
	p, err := a.Ledger().Money.Position(ctx, a.Name)
	return p.WithUnbooked(), err
}

func (a answers) pause(ctx context.Context, q verbs.OperatorRequest) (verbs.Changed, error) {
	before, paused := a.runner.PausedByHand()
	err := a.runner.PauseByHand(ctx, asked(ctx, q.By), q.Reason)
	if err == nil && paused {
		return verbs.Changed{Warning: fmt.Sprintf("the account is paused already since %s, %s: this reason stays, and the new one is not kept; to replace it, resume and pause again", before.Since.UTC().Format(time.RFC3339), before.Detail)}, nil
	}
	return verbs.Changed{Changed: 1}, err
}

func (a answers) resume(ctx context.Context, q verbs.ResumeRequest) (verbs.Changed, error) {
	n, err := a.runner.ResumeByHand(ctx, asked(ctx, q.By), q.Reason, q.ReviewLost)
	return verbs.Changed{Changed: n}, err
}

// bound returns v with a handler that needs the provider's account. Until that account has been
// read, the handler refuses requests.
func (a answers) bound(v service.Verb) service.Verb {
	do := v.Handle
	v.Handle = func(ctx context.Context, data []byte) ([]byte, error) {
		if x := a.snapshot(); x.sweeper == nil {
			return nil, &service.Error{Code: "refused", Description: "the account does not work yet: " + x.state}
		}
		return do(ctx, data)
	}
	return v
}

func changing(do func(ctx context.Context, id, by, reason string, as ...inspect.As) (int, error)) func(context.Context, verbs.OperatorRequest) (verbs.Changed, error) {
	return func(ctx context.Context, q verbs.OperatorRequest) (verbs.Changed, error) {
		id, as := q.Of()
		n, err := do(ctx, id, asked(ctx, q.By), q.Reason, as)
		return verbs.Changed{Changed: n}, err
	}
}

func (a answers) retry(ctx context.Context, q verbs.RetryRequest) (verbs.Changed, error) {
	if q.UnlessRepeated {
		return changing(a.runner.RetryUnrepeated)(ctx, q.OperatorRequest)
	}
	return changing(a.runner.Retry)(ctx, q.OperatorRequest)
}

// asked returns the name under which a change is made. This is the name in the request or, if
// there is none, the name of the NATS user.
func asked(ctx context.Context, by string) string { return cmp.Or(by, fact.UserOf(ctx)) }

// signed replaces *by with the name under which the change is made. It returns an error if the
// name or the reason is missing or invalid.
func signed(ctx context.Context, by *string, reason string) error {
	*by = asked(ctx, *by)
	return desk.CheckSigned(*by, reason)
}

// changeOne makes one change on behalf of an operator. It refuses a change without a name or
// reason.
func changeOne(ctx context.Context, by *string, reason string, change func() error) (verbs.Changed, error) {
	err := signed(ctx, by, reason)
	if err == nil {
		err = change()
	}
	if err != nil {
		return verbs.Changed{}, err
	}
	return verbs.Changed{Changed: 1}, nil
}

// states returns the states of commands. It omits unknown ids.
func (a answers) states(ctx context.Context, q verbs.StatesRequest) (map[string]string, error) {
	if len(q.IDs) > verbs.MaxStates {
		return nil, &command.RefusedError{Reason: fmt.Sprintf("%d ids of at most %d", len(q.IDs), verbs.MaxStates)}
	}
	for _, hashes := range []*[]string{&q.Hashes, &q.Messages} {
		if len(*hashes) == 0 {
			*hashes = make([]string, len(q.IDs))
		}
		if len(*hashes) != len(q.IDs) {
			return nil, &command.RefusedError{Reason: "hashes and messages must be as many as ids"}
		}
	}
	out := make(map[string]string, len(q.IDs))
	for i, id := range q.IDs {
		state, err := inspect.StateOf(ctx, a.Ledger(), id, q.Hashes[i], q.Messages[i])
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

func (a answers) show(ctx context.Context, _ struct{}) (verbs.AccountView, error) {
	b, err := a.Ledger().Binding(ctx)
	if err != nil && !errors.Is(err, ledger.ErrNotFound) {
		return verbs.AccountView{}, err
	}
	v := verbs.AccountView{
		Account: a.Name, AccountID: b.AccountID, Environment: b.Environment, BaseURL: b.BaseURL, AppID: a.Client.AppID(), Currency: b.Currency, NotReady: a.notReady(),
		Provider: a.providerRecent(),
	}
	if v.Paused, err = a.Ledger().Operations.Pauses(ctx); err != nil {
		return v, err
	}
	if v.Paused == nil {
		v.Paused = []tables.Pause{}
	}
	v.Head.Seq, v.Head.Hash, err = a.Ledger().Head(ctx)
	x := a.snapshot()
	if x.runner != nil {
		at := x.runner.ProviderAccount()
		v.Status, v.Email = at.Status, at.Email
		if !at.CreatedAt.IsZero() {
			v.CreatedAt = &at.CreatedAt
		}
	}
	if a.host.Embedded == nil {
		v.Published = uint64(v.Head.Seq) // a standby applies only rows that are on the stream
	}
	if x.outbox != nil {
		v.Published, v.ShortOfMoney = x.outbox.Published(), x.runner.ShortOfMoney()
		v.Reconciled = x.runner.LastReconciliation()
	}
	return v, err
}

// serve attaches a handler to a declared service request.
func serve[Q, A any](v verbs.Verb[Q, A], do func(context.Context, Q) (A, error)) service.Verb {
	served := v.Verb
	served.Handle = func(ctx context.Context, data []byte) ([]byte, error) {
		ctx = fact.WithUser(ctx, service.Caller(ctx))
		var q Q
		if err := command.DecodeRequest(data, &q); err != nil {
			return nil, &service.Error{Code: "bad_request", Description: "the request is not the JSON that this verb takes: " + err.Error()}
		}
		if bounded, ok := any(q).(interface{ Check() error }); ok {
			if err := bounded.Check(); err != nil {
				return nil, &service.Error{Code: "bad_request", Description: err.Error()}
			}
		}
		out, err := do(ctx, q)
		if err != nil {
			return nil, refusal(err)
		}
		var text bytes.Buffer
		err = fact.Encode(&text, out)
		return text.Bytes(), err
	}
	return served
}

// NothingOfID is the description of CodeNotFound for an id that the account does not know.
const NothingOfID = "there is no command or operation of that id"

// refusal converts a known error to a service.Error with its code. It returns any other error
// unchanged.
func refusal(err error) error {
	var refused *command.RefusedError
	if answered, ok := errors.AsType[*service.Error](err); ok {
		return answered
	}
	switch {
	case errors.Is(err, ledger.ErrNotFound):
		return &service.Error{Code: CodeNotFound, Description: NothingOfID}
	case errors.Is(err, schedules.ErrNoPlan), errors.Is(err, schedules.ErrNoSchedule):
		return &service.Error{Code: CodeNotFound, Description: err.Error()}
	case errors.Is(err, schedules.ErrFired), errors.Is(err, schedules.ErrForecastDays), errors.Is(err, schedules.ErrOverBudget), errors.Is(err, schedules.ErrBegun):
		return &service.Error{Code: "refused", Description: err.Error()}
	case errors.As(err, &refused) && refused.Unknown:
		return &service.Error{Code: CodeNotFound, Description: refused.Reason}
	case errors.As(err, &refused) && refused.Unconfirmed:
		return &service.Error{Code: CodeUnconfirmed, Description: refused.Reason}
	case errors.As(err, &refused):
		return &service.Error{Code: "refused", Description: refused.Reason}
	}
	return err
}

// carryOut returns v with a handler that publishes the command on the commands stream and
// returns the command's result. Before the command is on the stream, the runner has not stored
// it. A producer that gets no response must therefore repeat the request with the same id.
func (a answers) carryOut(v service.Verb) service.Verb {
	v.Handle = func(ctx context.Context, data []byte) ([]byte, error) {
		if len(data) > queue.MaxCommandBytes {
			return nil, &service.Error{Code: "bad_request", Description: fmt.Sprintf("the command has %d bytes of at most %d", len(data), queue.MaxCommandBytes)}
		}
		outgoing := publish.Outgoing{Kind: queue.Kind(v.Name), Data: data, Header: nats.Header{}}
		for _, name := range []string{"traceparent", "tracestate"} {
			if value := service.RequestHeader(ctx, name); value != "" {
				outgoing.Header.Set(name, value)
			}
		}
		bounded, cancel := context.WithTimeout(ctx, mostParked)
		defer cancel()
		answer, err := publish.New(a.js()).CarryOut(bounded, a.Name, outgoing)
		if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, publish.ErrUnacknowledged) && ctx.Err() == nil {
			return nil, &service.Error{Code: "not_finished", Description: "the command is published and not over yet: ask for its end with the verb wait"}
		}
		if err != nil {
			return nil, err
		}
		var refused jobs.Refusal
		if err := json.Unmarshal(answer, &refused); err == nil && refused.Error != "" {
			return nil, &service.Error{Code: refused.Error, Description: refused.Reason, Body: answer}
		}
		return answer, nil
	}
	return v
}

func (a answers) reconcile(ctx context.Context, _ struct{}) (reconcile.Reconciliation, error) {
	ctx, cancel := context.WithTimeout(ctx, ReconcileTimeout)
	defer cancel()
	x, err := a.runner.Reconcile(ctx)
	for range reconcileAgain {
		if !errors.Is(err, upstream.CodeRateLimited) || a.runner.WaitOut(ctx, reconcileWaits) != nil {
			break
		}
		x, err = a.runner.Reconcile(ctx) // continues where the rate-limited request stopped the last pass
	}
	if _, refused := errors.AsType[*command.RefusedError](err); err != nil && !refused {
		err = &service.Error{Code: CodeUnreachable, Description: "the books could not be compared with the provider: " + err.Error()}
	}
	return x, err
}

const (
	// reconcileAgain limits how many times a reconciliation continues after the provider has
	// rate limited its request. A reconciliation uses the whole rate, so it is the first to be
	// rate limited.
	reconcileAgain = 10
	// reconcileWaits is the longest Retry-After for which a reconciliation waits.
	reconcileWaits = 30 * time.Second
)

// CodeUnreachable is the error code for a reconciliation that failed, usually because the
// provider did not reply.
const CodeUnreachable = "unreachable"

func (a answers) record(ctx context.Context, x desk.Recording) (verbs.Changed, error) {
	x.By = asked(ctx, x.By)
	done, err := Record(ctx, a.Ledger(), x, a.runner.ReadOrder)
	if err == nil && x.CorrectsSeq > 0 {
		a.runner.CompareAnswer()
	}
	return done, err
}

// Record books money that an operator records, and returns a warning if the wallet is overdrawn.
// The shown function reads an order that the ledger does not know.
func Record(ctx context.Context, l *ledger.Ledger, x desk.Recording, shown desk.OrderReader) (done verbs.Changed, err error) {
	r, booked, err := desk.Record(ctx, l, x, shown)
	if err != nil {
		return done, err
	}
	if booked {
		done.Changed = 1
	}
	done.Record = &verbs.RecordAnswer{Seq: r.Seq, Kind: r.Movement, Cents: r.AmountCents, Account: r.Account}
	b, err := l.Money.Balance(ctx, "")
	if err != nil {
		return done, err
	}
	done.Currency, done.WalletCents = b.Currency, &b.WalletCents
	done.Warning, err = desk.Overdrawn(ctx, l, r.Movement)
	return done, err
}

// ReconcileTimeout limits a reconciliation that an operator requested.
const ReconcileTimeout = 10 * time.Minute

// EvidenceTimeout limits reading evidence from the provider while an operator waits.
const EvidenceTimeout = 2 * time.Minute

// OperationInReview returns the id of the operation that id refers to. For a command's id,
// this is the command's operation in review or, if none is in review, its only operation. If
// several operations qualify, it returns an error that lists the first few.
func OperationInReview(ctx context.Context, l *ledger.Ledger, id string, as inspect.As) (string, error) {
	if _, err := l.Operations.Operation(ctx, id); as != inspect.AsCommand && !errors.Is(err, ledger.ErrNotFound) || as == inspect.AsOperation {
		return id, err
	}
	reviews, err := l.Operations.Reviews(ctx)
	if err != nil {
		return "", err
	}
	var of []string
	for _, x := range reviews {
		if x.CommandID == id && !slices.Contains(of, x.OperationID) {
			of = append(of, x.OperationID)
		}
	}
	where := "in review"
	if len(of) == 0 {
		all, err := l.Operations.OperationsOf(ctx, id)
		if err != nil {
			return "", err
		}
		where = "and none in review"
		for _, o := range all {
			of = append(of, o.ID)
		}
	}
	switch len(of) {
	case 0:
		return id, nil // the caller reports the id as not found
	case 1:
		return of[0], nil
	}
	return "", &command.RefusedError{Reason: fmt.Sprintf("command %s has %d operations %s: say which: %s", id, len(of), where, FirstFew(of))}
}

// resolve books the answer that an operator gives to a review. It returns the new wallet
// balance.
func (a answers) resolve(ctx context.Context, x desk.Resolution) (verbs.Changed, error) {
	x.By = asked(ctx, x.By)
	var err error
	id, as := verbs.OperatorRequest{ID: x.ID, OperationID: x.OperationID, CommandID: x.CommandID}.Of()
	if x.ID, err = OperationInReview(ctx, a.Ledger(), id, as); err != nil {
		return verbs.Changed{}, err
	}
	if err := a.runner.Resolve(ctx, x); err != nil {
		return verbs.Changed{}, err
	}
	b, err := a.Ledger().Money.Balance(ctx, a.Name)
	if err != nil { // the operator's answer is booked even if the balance cannot be read
		return verbs.Changed{Changed: 1}, nil //nolint:nilerr // the balance is only additional information
	}
	return verbs.Changed{Changed: 1, Currency: b.Currency, WalletCents: &b.WalletCents}, nil
}

// FirstFew returns the first three ids as text. If there are more ids, the text ends with their
// number.
func FirstFew(ids []string) string {
	const named = 3
	if len(ids) <= named {
		return strings.Join(ids, " ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(ids[:named], " "), len(ids)-named)
}

// evidence returns the evidence on an operation in review, including data read from the
// provider.
func (a answers) evidence(ctx context.Context, q verbs.OperatorRequest) (inspect.Evidence, error) {
	ctx, cancel := context.WithTimeout(ctx, EvidenceTimeout)
	defer cancel()
	id, as := q.Of()
	id, err := OperationInReview(ctx, a.Ledger(), id, as)
	if err != nil {
		return inspect.Evidence{}, err
	}
	return a.runner.Evidence(ctx, id)
}

// Failpoints between the steps of a requeue.
const (
	reachedRequeueFact      = "dead.requeue.fact"
	reachedRequeuePublished = "dead.requeue.published"
)

// deadRequeue publishes a dead letter again, unchanged, and then removes the letter. If the
// request has a content hash, the caller publishes corrected content, and deadRequeue only
// records the hash.
//
// The order is fact, publication, removal. The journal thus records who requeued a command
// before the stream has the command. The letter is removed only after the stream has stored the
// command. After a crash between these steps, the letter remains and the operator repeats the
// request. The second request appends another fact and publishes the same bytes. A command that
// is on the stream twice is carried out once, because id and content are the same. A command
// that was refused because it has no id becomes a dead letter again. A message id would add no
// protection, because the stream forgets message ids after a short duplicate window.
func (a answers) deadRequeue(ctx context.Context, q verbs.DeadRequest) (verbs.Changed, error) {
	a.oneLetter.Lock() // a second request for the letter then finds it removed
	defer a.oneLetter.Unlock()
	letter, err := a.letterOf(ctx, &q)
	if err != nil {
		return verbs.Changed{}, err
	}
	note := fact.DeadRequeued{LetterSeq: q.Seq, By: q.By, Reason: q.Reason, User: fact.UserOf(ctx), ContentHash: q.ContentHash}
	noted := func(tx *ledger.Tx) error { return tx.Append(note) }
	if q.ContentHash != "" {
		if hash, err := hex.DecodeString(q.ContentHash); err != nil || len(hash) != sha256.Size {
			return verbs.Changed{}, command.Refuse("content_hash %.80q is not a SHA-256 in hex", q.ContentHash)
		}
		return verbs.Changed{Changed: 1}, a.Ledger().Write(ctx, noted)
	}
	kind := queue.KindOf(a.Name, letter.Dead.Subject)
	if queue.ValidKind(kind) != nil || len(letter.Dead.Data) > queue.MaxCommandBytes {
		return verbs.Changed{}, command.Refuse("the command came on %.80q with %d bytes, and would be refused again: drop it, or publish a corrected one", letter.Dead.Subject, len(letter.Dead.Data))
	}
	if err := a.Ledger().Write(ctx, noted); err != nil {
		return verbs.Changed{}, err
	}
	failpoint.Reached(ctx, reachedRequeueFact)
	if err := publish.New(a.js()).Publish(ctx, a.Name, publish.Outgoing{Kind: kind, Data: letter.Dead.Data}); err != nil {
		return verbs.Changed{}, fmt.Errorf("publish it again: %w; the dead letter is still there", err)
	}
	failpoint.Reached(ctx, reachedRequeuePublished)
	return a.dropLetter(ctx, q.Seq)
}

// deadDrop appends a fact that records who drops a dead letter, then removes the letter.
// After a crash between these steps, the letter remains and can be dropped again.
func (a answers) deadDrop(ctx context.Context, q verbs.DeadRequest) (verbs.Changed, error) {
	a.oneLetter.Lock()
	defer a.oneLetter.Unlock()
	if _, err := a.letterOf(ctx, &q); err != nil {
		return verbs.Changed{}, err
	}
	err := a.Ledger().Write(ctx, func(tx *ledger.Tx) error {
		return tx.Append(fact.DeadDropped{LetterSeq: q.Seq, By: q.By, Reason: q.Reason, User: fact.UserOf(ctx)})
	})
	if err != nil {
		return verbs.Changed{}, err
	}
	return a.dropLetter(ctx, q.Seq)
}

// letterOf returns the dead letter of a request. It refuses a request without a name or reason.
func (a answers) letterOf(ctx context.Context, q *verbs.DeadRequest) (letters.Letter, error) {
	if err := signed(ctx, &q.By, q.Reason); err != nil {
		return letters.Letter{}, err
	}
	letter, err := a.letters().Read(ctx, q.Seq)
	if errors.Is(err, letters.ErrNone) {
		return letter, command.RefuseUnknown("there is no dead letter %d: `perennial dead-letters list` shows them", q.Seq)
	}
	return letter, err
}

// dropLetter removes a dead letter. A missing letter is not an error, because it may have
// been removed in the meantime.
func (a answers) dropLetter(ctx context.Context, seq uint64) (verbs.Changed, error) {
	err := a.letters().Drop(ctx, seq)
	if err != nil && !errors.Is(err, letters.ErrNone) {
		return verbs.Changed{}, err
	}
	return verbs.Changed{Changed: 1}, nil
}
