package inspect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// RefusedNext says what to do about a command that was refused on arrival.
const RefusedNext = "Publish the corrected command under the same id, which is still free; or leave it: nothing of it was carried out, and it leaves the list of what needs you after 24 h"

// CommandStatus is the status of a command, as `status ID -o json` prints it.
type CommandStatus struct {
	CommandID  string            `json:"command_id" doc:"The id of the command, chosen by its producer."`
	Kind       fact.Kind         `json:"kind,omitempty" doc:"The kind of the command."`
	State      string            `json:"state" doc:"The state."`
	Reason     string            `json:"reason,omitempty" doc:"The reason, for people; the text may change."`
	Labels     map[string]string `json:"labels,omitempty" doc:"The labels of the command, as given by its producer."`
	Operations []OperationStatus `json:"operations" doc:"The operations of the command."`
	WaitsFor   string            `json:"waits_for,omitempty" doc:"'waits_for' says what the command waits for: a pause, a hold, a time."`
	LeftOut    []LeftOut         `json:"left_out,omitempty" doc:"'left_out' lists proxies that another operation had reserved when the command arrived."`
	SameID     *SameID           `json:"same_id,omitempty" doc:"'same_id' is an operation of another command with the same id as this command. New commands cannot have such an id."`
	ArchivedIn string            `json:"archived_in,omitempty" doc:"'archived_in' is the archive with the command's content, if that file is not beside the ledger. Without it, labels and skipped proxies are unknown."`
}

// SameID is an operation that has the same id as another command.
type SameID struct {
	OperationID string     `json:"operation_id" doc:"The id of the operation: the command's id and the part, such as restock-7/1."`
	CommandID   string     `json:"command_id" doc:"The id of the command, chosen by its producer."`
	State       fact.State `json:"state" doc:"The state."`
}

// LeftOut is a proxy that a renewal left out, and why.
type LeftOut struct {
	ProxyID string `json:"proxy_id" doc:"The provider's id of the proxy."`
	Reason  string `json:"reason" doc:"The reason, for people; the text may change."`
}

// OperationStatus is the status of one operation. ChargedCents is before refunds.
type OperationStatus struct {
	OperationID    string               `json:"operation_id" doc:"The id of the operation: the command's id and the part, such as restock-7/1."`
	CommandID      string               `json:"command_id" doc:"The id of the command, chosen by its producer."`
	Kind           fact.Kind            `json:"kind" doc:"The kind of the operation."`
	IdempotencyKey string               `json:"idempotency_key" doc:"The idempotency key, under which the provider carries out the operation once."`
	State          fact.State           `json:"state" doc:"The state."`
	Reason         string               `json:"reason" doc:"The reason, for people; the text may change."`
	Corrected      []string             `json:"corrected,omitempty" doc:"Corrections of the answer to its review."`
	Code           string               `json:"code,omitempty" doc:"The reason, as a code of the provider or of Perennial."`
	Attempts       int64                `json:"attempts" doc:"How many attempts the operation had."`
	Ambiguous      int64                `json:"ambiguous_attempts" doc:"How many attempts without a usable reply may have been carried out."`
	FirstSentAt    *time.Time           `json:"first_sent_at" doc:"When the operation was first sent."`
	NextAt         *time.Time           `json:"next_at" doc:"The earliest time of the next step."`
	OrderNo        string               `json:"order_no" doc:"The provider's number of the order."`
	ExpectedCount  int64                `json:"expected_count,omitempty" doc:"How many proxies were ordered."`
	DeliveredCount int64                `json:"delivered_count,omitempty" doc:"How many proxies were delivered."`
	Currency       string               `json:"currency,omitempty" doc:"The currency of the amounts."`
	ChargedCents   int64                `json:"charged_cents" doc:"The amount charged, before refunds."`
	RefundedCents  int64                `json:"refunded_cents" doc:"The amount refunded."`
	TraceID        string               `json:"trace_id" doc:"The provider's trace id of the request, for its support."`
	AcceptedAt     time.Time            `json:"accepted_at" doc:"When the command was accepted."`
	ProxyIDs       []string             `json:"proxy_ids,omitempty" doc:"The proxies that the order delivered."`
	Lines          []tables.RenewalLine `json:"lines"`
}

// As says whether an id is a command's or an operation's, because both may have the same
// id. The zero value allows both.
type As string

const (
	AsCommand   As = "command"
	AsOperation As = "operation"
)

// Status returns the status of a command, found by its id or by an operation's id. It
// returns ledger.ErrNotFound for an unknown id.
func Status(ctx context.Context, l *ledger.Ledger, id string) (CommandStatus, error) {
	return StatusAs(ctx, l, id, "")
}

// StatusAs is Status for an id of the given type.
func StatusAs(ctx context.Context, l *ledger.Ledger, id string, as As) (CommandStatus, error) {
	return status(ctx, l, id, as, wholeStatusOf)
}

// Brief is StatusAs without lines and delivered proxies. Use it for commands with many
// operations: a command of 100,000 proxies has a thousand.
func Brief(ctx context.Context, l *ledger.Ledger, id string, as As) (CommandStatus, error) {
	return status(ctx, l, id, as, func(_ context.Context, _ *ledger.Ledger, o fact.Operation, currency string) (OperationStatus, error) {
		return OperationStatusOf(o, currency), nil
	})
}

type statusMaker func(context.Context, *ledger.Ledger, fact.Operation, string) (OperationStatus, error)

func status(ctx context.Context, l *ledger.Ledger, id string, as As, of statusMaker) (CommandStatus, error) {
	same, err := l.Operations.Operation(ctx, id)
	if err != nil && (as == AsOperation || !errors.Is(err, ledger.ErrNotFound)) {
		return CommandStatus{}, err
	}
	isOperation := err == nil
	if as == AsOperation {
		return statusOfCommand(ctx, l, same.CommandID, of)
	}
	s, err := statusOfCommand(ctx, l, id, of)
	switch {
	case !isOperation || err != nil && !errors.Is(err, ledger.ErrNotFound):
	case as == "" && (err != nil || s.Kind == ""): // no command, or a refused command
		return statusOfCommand(ctx, l, same.CommandID, of)
	case err == nil && same.CommandID != id:
		s.SameID = &SameID{OperationID: same.ID, CommandID: same.CommandID, State: same.State}
	}
	return s, err
}

func statusOfCommand(ctx context.Context, l *ledger.Ledger, id string, of statusMaker) (CommandStatus, error) {
	accepted, archivedIn, err := acceptance(ctx, l, id)
	if errors.Is(err, ledger.ErrNotFound) {
		refusal, err := l.Operations.Rejection(ctx, id)
		return CommandStatus{CommandID: id, State: string(fact.StateRejected), Reason: refusal.Reason, Operations: []OperationStatus{}}, err
	}
	if err != nil {
		return CommandStatus{}, err
	}
	records, err := l.Operations.OperationsOf(ctx, id)
	if err != nil {
		return CommandStatus{}, err
	}
	state, err := stateOf(ctx, l, records)
	if err != nil {
		return CommandStatus{}, err
	}
	currency, err := l.Currency(ctx)
	if err != nil {
		return CommandStatus{}, err
	}
	s := CommandStatus{CommandID: id, Kind: accepted.Kind, State: state, Labels: accepted.Labels, Operations: []OperationStatus{}, ArchivedIn: archivedIn}
	pauses, err := l.Operations.Pauses(ctx)
	if err != nil {
		return s, err
	}
	s.WaitsFor = waitsFor(records, pauses)
	for _, o := range records {
		one, err := of(ctx, l, o, currency)
		if err != nil {
			return s, err
		}
		if s.Reason == "" {
			s.Reason = one.Reason
		}
		s.Operations = append(s.Operations, one)
	}
	if archivedIn == "" {
		s.LeftOut, err = leftOut(ctx, l, id)
	}
	return s, err
}

// wholeStatusOf returns an operation's status with its lines, its proxies, and the operator
// who decided on it.
func wholeStatusOf(ctx context.Context, l *ledger.Ledger, o fact.Operation, currency string) (one OperationStatus, err error) {
	if o.Reason, err = signedReason(ctx, l, o); err != nil {
		return one, err
	}
	one, err = ListedStatus(ctx, l, o, currency)
	if err == nil && o.Kind.OfProxies() {
		one.Lines, err = l.Operations.Lines(ctx, o.ID)
	}
	if err == nil && o.Kind.MakesOrder() {
		one.ProxyIDs, err = Delivered(ctx, l, o.ID)
	}
	return one, err
}

// signedReason returns an operation's reason. If an operator gave the reason, the NATS user
// is added after the operator's name, because the ledger's table has only the name.
func signedReason(ctx context.Context, l *ledger.Ledger, o fact.Operation) (string, error) {
	if !strings.Contains(o.Reason, " by ") {
		return o.Reason, nil
	}
	rows, err := l.RowsOf(ctx, o.ID)
	if _, gone := errors.AsType[*ledger.ArchivedError](err); gone {
		return o.Reason, nil
	}
	for _, r := range slices.Backward(rows) {
		decoded, err := fact.Decode(r.Type, []byte(r.Data))
		if err != nil {
			return "", err
		}
		switch f := decoded.(type) {
		case fact.CommandCancelled:
			if f.Said(f.By) == o.Reason {
				return f.Said(fact.Signed(f.By, f.User)), nil
			}
		case fact.OperationResolved:
			if f.Said(f.By) == o.Reason {
				return f.Said(fact.Signed(f.By, f.User)), nil
			}
		}
	}
	return o.Reason, err
}

// Returns the operators' corrections of the answer to an operation's review, as text. It returns
// nil if facts are in a missing archive.
func corrections(ctx context.Context, l *ledger.Ledger, operationID, currency string) (said []string, err error) {
	rows, err := l.RowsOf(ctx, operationID)
	if _, gone := errors.AsType[*ledger.ArchivedError](err); gone {
		return nil, nil
	}
	for _, r := range rows {
		decoded, err := fact.Decode(r.Type, []byte(r.Data))
		if err != nil {
			return nil, err
		}
		if text := correctionText(decoded, currency); text != "" {
			said = append(said, text)
		}
	}
	return said, err
}

func correctionText(f fact.Fact, currency string) string {
	x, recorded := f.(fact.LedgerRecorded)
	if !recorded || x.Corrects == 0 {
		return ""
	}
	return decidedText(x.Movement, x.AmountCents, currency, x.ProxyID, x.By, x.User, x.Reason)
}

// StateText returns the state as text, with ", corrected" if the answer was corrected.
func (o OperationStatus) StateText() string {
	if len(o.Corrected) > 0 {
		return string(o.State) + ", corrected"
	}
	return string(o.State)
}

// ChargedText returns the booked charge as text. If nothing is booked yet, it says that an
// open order is charged when it ends, or that the charge is unknown.
func (o OperationStatus) ChargedText() string {
	return o.amountText(o.ChargedCents, o.ChargedCents)
}

// NetOrCharged is ChargedText with refunds subtracted.
func (o OperationStatus) NetOrCharged() string {
	return o.amountText(o.ChargedCents, o.ChargedCents-o.RefundedCents)
}

// LineText returns the net charge of a line as text.
func (o OperationStatus) LineText(l tables.RenewalLine) string {
	if l.State == fact.LinePending {
		return o.amountText(l.ChargedCents, l.ChargedCents-l.RefundedCents)
	}
	return fact.Amount(l.ChargedCents-l.RefundedCents, o.Currency)
}

// amountText returns amount as text. If charges may follow, it returns "when it ends" or
// "unknown".
func (o OperationStatus) amountText(charged, amount int64) string {
	switch {
	case charged > 0 || o.State.Ended():
	case o.State == fact.StateOpen:
		return "when it ends"
	case o.State == fact.StateReview || o.Ambiguous > 0:
		return "unknown"
	}
	return fact.Amount(amount, o.Currency)
}

// NetText returns the net charge as text. It returns "" if nothing was refunded.
func (o OperationStatus) NetText() string {
	if o.RefundedCents == 0 {
		return ""
	}
	return fact.Amount(o.ChargedCents-o.RefundedCents, o.Currency)
}

// acceptance returns the fact that accepted a command. If the fact is in a missing archive,
// it returns only the kind, and the archive's name in archivedIn.
func acceptance(ctx context.Context, l *ledger.Ledger, id string) (accepted fact.CommandAccepted, archivedIn string, err error) {
	accepted, err = l.Operations.Acceptance(ctx, id)
	gone, ok := errors.AsType[*ledger.ArchivedError](err)
	if !ok {
		return accepted, "", err
	}
	c, err := l.Operations.Command(ctx, id)
	accepted.Kind = c.Kind
	return accepted, gone.File, err
}

// Delivered returns the proxies that an order delivered, even if it was partly refunded or
// needs review. It returns nil if facts are in a missing archive.
func Delivered(ctx context.Context, l *ledger.Ledger, operationID string) ([]string, error) {
	rows, err := l.RowsOf(ctx, operationID)
	if _, gone := errors.AsType[*ledger.ArchivedError](err); gone {
		return nil, nil
	}
	for _, r := range slices.Backward(rows) {
		decoded, err := fact.Decode(r.Type, []byte(r.Data))
		if err != nil {
			return nil, err
		}
		var ids []string
		switch f := decoded.(type) {
		case fact.OrderDelivered:
			ids = f.ProxyIDs
		case fact.OrderRefunded:
			ids = f.ProxyIDs
		case fact.OrderListed:
			ids = f.ProxyIDs
		case fact.OperationReview:
			ids = f.ProxyIDs
		case fact.OperationResolved:
			ids = f.ProxyIDs
		}
		if len(ids) > 0 {
			return ids, nil
		}
	}
	return nil, err
}

func leftOut(ctx context.Context, l *ledger.Ledger, commandID string) (out []LeftOut, err error) {
	rows, err := l.RowsOf(ctx, commandID)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		decoded, err := fact.Decode(r.Type, []byte(r.Data))
		if err != nil {
			return nil, err
		}
		if f, ok := decoded.(fact.ProxySkipped); ok && f.OperationID == "" {
			for _, x := range f.Proxies() {
				out = append(out, LeftOut{ProxyID: x.ProxyID, Reason: x.Reason})
			}
		}
	}
	return out, nil
}

// StateConflict is the state of a command whose id was accepted before with other content.
// Only the first content is executed.
const StateConflict = "conflict"

// StateOf returns the command's state. It returns ledger.ErrNotFound for an unknown id. If hash
// is given, it returns the state of the content with this hash: it ignores refusals of other
// content under the same id, and returns StateConflict if other content was accepted. message is
// the hash of the published message (MessageHash). It is "" if that hash is unknown. It
// identifies content that could not be parsed.
func StateOf(ctx context.Context, l *ledger.Ledger, id, hash, message string) (string, error) {
	accepted, err := l.Operations.Command(ctx, id)
	if errors.Is(err, ledger.ErrNotFound) {
		return string(fact.StateRejected), wasRefused(ctx, l, id, hash, message)
	}
	if err != nil {
		return "", err
	}
	if hash != "" && accepted.ContentHash != hash {
		return StateConflict, nil
	}
	records, err := l.Operations.OperationsOf(ctx, id)
	if err != nil {
		return "", err
	}
	return stateOf(ctx, l, records)
}

// wasRefused returns nil if the command was refused. Otherwise it returns ledger.ErrNotFound. If
// hash is not "", the hash of the refused content must equal hash or message.
func wasRefused(ctx context.Context, l *ledger.Ledger, id, hash, message string) error {
	if hash == "" {
		_, err := l.Operations.Rejection(ctx, id)
		return err
	}
	for _, h := range []string{hash, message} {
		if known, err := l.RefusedContent(ctx, id, h); err != nil || known && h != "" {
			return err
		}
	}
	return ledger.ErrNotFound
}

func stateOf(ctx context.Context, l *ledger.Ledger, records []fact.Operation) (string, error) {
	return fact.CommandState(records, func(id string) (map[string]fact.LineState, error) {
		lines, err := l.Operations.Lines(ctx, id)
		states := make(map[string]fact.LineState, len(lines))
		for _, x := range lines {
			states[x.ProxyID] = x.State
		}
		return states, err
	})
}

// ListedStatus is OperationStatusOf with the corrections of the answer to the operation's review.
func ListedStatus(ctx context.Context, l *ledger.Ledger, o fact.Operation, currency string) (one OperationStatus, err error) {
	one = OperationStatusOf(o, currency)
	if o.State != fact.StateResolved {
		return one, nil
	}
	if one.Corrected, err = corrections(ctx, l, o.ID, currency); len(one.Corrected) > 0 {
		one.Reason += "; corrected since"
	}
	return one, err
}

// OperationStatusOf returns an operation's status from its record alone, without its lines.
func OperationStatusOf(o fact.Operation, currency string) OperationStatus {
	switch {
	case o.Reason != "":
	case o.State == fact.StateFailed:
		o.Reason = "the provider reports the renewal as failed"
	case o.State == fact.StatePartial:
		o.Reason = "the provider reports a part of the renewal as failed"
	}
	return OperationStatus{
		OperationID: o.ID, CommandID: o.CommandID, Kind: o.Kind, IdempotencyKey: o.Key, State: o.State, Reason: o.Reason, Code: o.Code,
		Attempts: o.Attempts, Ambiguous: o.Ambiguous, FirstSentAt: o.FirstSentAt, NextAt: o.NextAt, OrderNo: o.OrderNo,
		ExpectedCount: o.ExpectedCount, DeliveredCount: o.DeliveredCount, Currency: currency, ChargedCents: o.ChargedCents, RefundedCents: o.RefundedCents,
		TraceID: o.TraceID, AcceptedAt: o.AcceptedAt, Lines: []tables.RenewalLine{},
	}
}

// waitsFor describes why a command waits: a pause, a hold or a time. It returns "" if the
// command is in progress or has ended.
func waitsFor(records []fact.Operation, pauses []tables.Pause) string {
	for _, o := range records {
		waiting := o.State == fact.StateWaiting
		if waiting || o.State == fact.StateAccepted {
			for _, p := range pauses {
				if p.Scope == decide.ScopeAccount || p.Scope == string(o.Kind) {
					return PauseText(p)
				}
			}
		}
		switch held := o.State == fact.StateHeld; {
		case waiting && o.NextAt != nil:
			return "it is sent again at " + o.NextAt.UTC().Format(time.RFC3339)
		case held && o.NextAt != nil:
			return fmt.Sprintf("it is on hold and looked at again at %s, or released by `perennial release %s`", o.NextAt.UTC().Format(time.RFC3339), o.CommandID)
		case held:
			return fmt.Sprintf("it is on hold until `perennial release %s`", o.CommandID)
		}
	}
	return ""
}

// PauseText describes a pause. If the pause has no end time, the text says how to end it.
func PauseText(p tables.Pause) string {
	text := PausedSince(p)
	if p.Until != nil || strings.Contains(p.Detail, "`perennial accounts resume`") {
		return text
	}
	return text + " (`perennial accounts resume` ends it)"
}

// PausedSince describes a pause: what is paused, since when, why, and until when.
func PausedSince(p tables.Pause) string {
	what := "the account is paused"
	if p.Scope != decide.ScopeAccount {
		what = p.Scope + " is paused"
	}
	text := fmt.Sprintf("%s since %s: %s", what, p.Since.UTC().Format(time.RFC3339), p.Detail)
	if p.Until != nil {
		text += ", until " + p.Until.UTC().Format(time.RFC3339)
	}
	return text
}

// PausedRenewals returns why the account sends no renewals. It returns "" if the account sends
// them.
func PausedRenewals(ctx context.Context, l *ledger.Ledger) (string, error) {
	pauses, err := l.Operations.Pauses(ctx)
	for _, p := range pauses {
		switch p.Scope {
		case decide.ScopeAccount:
			return "the account is paused: " + p.Detail, err
		case string(fact.KindRenewal):
			return "renewals are paused: " + p.Detail, err
		}
	}
	return "", err
}
