package desk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/upstream"
)

// Recording is an operator's statement about money that no reply of the provider showed.
type Recording struct {
	Kind        string `json:"kind,omitempty" doc:"'kind' is top-up, external, charge or refund. A charge or refund belongs to an operation, given by its id or its order. If 'kind' is empty, the row of 'corrects_seq' is reversed."`
	Cents       int64  `json:"cents,omitempty" doc:"The amount. With 'corrects_seq', 0 means the whole amount that is left of that row."`
	ID          string `json:"id,omitempty" doc:"'id' makes repeats harmless, such as after a time-out: a record with the same id is booked once."`
	IDMade      bool   `json:"id_made,omitempty" doc:"'id_made' says that the program generated the id, so the id does not show whether the same money is recorded twice."`
	By          string `json:"by" doc:"The name of the person, as given in the request."`
	Reason      string `json:"reason" doc:"The reason, for people; the text may change."`
	OrderNo     string `json:"order_no,omitempty" doc:"The order that was paid for or refunded, if known."`
	OperationID string `json:"operation_id,omitempty" doc:"The id of the operation: the command's id and the part, such as restock-7/1."`
	ProxyID     string `json:"line,omitempty" doc:"The proxy of a renewal."`
	// ConfirmCents repeats Cents, like ConfirmCents of a Resolution.
	ConfirmCents *int64 `json:"confirm_cents,omitempty" doc:"'confirm_cents' repeats the 'cents' of a charge that corrects an answer. It is required if the total would exceed both the expected amount and the answer, or if 'cents' exceeds the wallet."`
	CorrectsSeq  int64  `json:"corrects_seq,omitempty" doc:"'corrects_seq' is the journal row, of a record or of an answer to a review, that this record reverses or corrects."`
}

// maxWords limits an operator's text in the journal, in bytes.
const maxWords = 500

var recordKinds = []string{fact.MovementTopUp, fact.MovementExternal, fact.MovementCharge, fact.MovementRefund}

// Check returns a RefusedError that says what is missing or out of bounds.
func (x Recording) Check() error {
	corrects := x.CorrectsSeq > 0
	switch {
	case x.CorrectsSeq < 0:
		return command.Refuse("--corrects %d is no row of the journal", x.CorrectsSeq)
	case !slices.Contains(recordKinds, x.Kind) && (x.Kind != "" || !corrects):
		return command.Refuse("kind %q is not known: top-up, external, charge or refund", fact.Bounded(x.Kind))
	case x.Cents < 0 || x.Cents > decide.MaxLineCents || x.Cents == 0 && !corrects:
		return command.Refuse("--cents %d cannot be recorded: it is over 0 and at most %d", x.Cents, decide.MaxLineCents)
	case x.ID != "" && command.CheckID(x.ID) != nil:
		return command.Refuse("the id %.40q is too long or cannot be printed", x.ID)
	}
	if err := CheckSigned(x.By, x.Reason); err != nil {
		return err
	}
	if err := checkWords(x.OrderNo, x.OperationID, x.ProxyID); err != nil || corrects {
		return err
	}
	return x.checkTarget()
}

func (x Recording) checkTarget() error {
	switch named := x.OperationID != "" || x.OrderNo != ""; {
	case x.ofOperation() && !named:
		return command.Refuse("a %s is of an order or an operation: add --order or --operation", x.Kind)
	case !x.ofOperation() && (x.OperationID != "" || x.ProxyID != ""):
		return command.Refuse("--operation and --line are of a charge or a refund, and the kind is %s", x.Kind)
	case x.OperationID != "" && x.OrderNo != "":
		return command.Refuse("--operation and --order both name the operation: use one of them")
	}
	return nil
}

func (x Recording) ofOperation() bool {
	return x.Kind == fact.MovementCharge || x.Kind == fact.MovementRefund
}

// OrderReader reads an order at the provider.
type OrderReader func(ctx context.Context, orderNo string) (upstream.Order, error)

// Record books money in an operator's name and returns the record. booked is false if a record
// with the same id exists. The function shown reads an order that the ledger does not have. An
// order that neither the ledger nor the provider has is refused.
func Record(ctx context.Context, l *ledger.Ledger, x Recording, shown OrderReader) (r ledger.Record, booked bool, err error) {
	if err := x.Check(); err != nil {
		return r, false, err
	}
	b, err := l.Binding(ctx)
	if errors.Is(err, ledger.ErrNotFound) {
		return r, false, command.Refuse("the ledger is not opened yet: its opening balance is booked by the first `perennial run`")
	}
	if err != nil {
		return r, false, err
	}
	balance, err := l.Money.Balance(ctx, "")
	if err != nil {
		return r, false, err
	}
	p := recording{Recording: x, ledger: l, binding: b, walletCents: balance.WalletCents, accepted: map[string]fact.CommandAccepted{}}
	if err := p.findOrder(ctx, shown); err != nil {
		return r, false, err
	}
	r, booked, err = p.write(ctx)
	if unread, ok := errors.AsType[*unreadError](err); ok {
		accepted, err := l.Operations.Acceptance(ctx, unread.commandID)
		if err != nil && !errors.Is(err, ledger.ErrNotFound) {
			return r, false, err
		}
		p.accepted[unread.commandID] = accepted
		if p.line.ProxyID != "" {
			paid, err := l.Fleet.LastPrice(ctx, p.line.ProxyID)
			if err != nil {
				return r, false, err
			}
			p.lastPrice = paid.For(p.line.DurationDays).Or(0)
		}
		return p.write(ctx)
	}
	return r, booked, err
}

func (p *recording) write(ctx context.Context) (r ledger.Record, booked bool, err error) {
	err = p.ledger.Write(ctx, func(tx *ledger.Tx) (err error) {
		booked = false
		if r, err = p.recordedBefore(tx); !errors.Is(err, ledger.ErrNotFound) {
			return err
		}
		if err := notBackdated(tx); err != nil {
			return err
		}
		parts, err := p.parts(tx)
		for _, part := range parts {
			f, err := part.book(ctx, tx)
			if err != nil {
				p.line = part.line
				return err
			}
			f.AmountCents += r.AmountCents
			r = ledger.Record{LedgerRecorded: f, Seq: tx.LastSeq(), At: tx.Now()}
		}
		booked = err == nil
		return err
	})
	return r, booked && err == nil, err
}

// parts returns a record for each charged line of an answer that is taken back as a whole, and
// otherwise the record itself. Lines that were taken back already are left out.
func (p *recording) parts(tx *ledger.Tx) ([]*recording, error) {
	whole := []*recording{p}
	if p.CorrectsSeq == 0 || p.Kind != "" || p.Cents > 0 || p.ProxyID != "" {
		return whole, nil
	}
	answer, err := tx.AnswerAt(p.CorrectsSeq)
	if errors.Is(err, ledger.ErrNotFound) || err == nil && (len(answer.Lines) < 2 || answer.ChargedCents == 0) {
		return whole, nil
	}
	var parts []*recording
	for _, l := range answer.Lines {
		corrected, errCorrected := tx.Corrected(p.CorrectsSeq, fact.MovementRefund, l.ProxyID)
		if err = errors.Join(err, errCorrected); corrected < l.ChargedCents {
			part := *p
			part.ProxyID = l.ProxyID
			parts = append(parts, &part)
		}
	}
	if err == nil && parts == nil {
		err = command.Refuse("row %d booked %s, and with its corrections %s: no more than that can be taken back",
			p.CorrectsSeq, p.binding.Amount(answer.ChargedCents), p.binding.Amount(0))
	}
	return parts, err
}

// book appends the fact of one record.
func (p *recording) book(ctx context.Context, tx *ledger.Tx) (fact.LedgerRecorded, error) {
	f, err := p.fact(ctx, tx)
	if err == nil {
		err = p.unlikeOthers(tx, f)
	}
	if err == nil {
		err = p.confirmed(f)
	}
	if err == nil && f.Movement == fact.MovementExternal && f.OrderNo == "" { // it may have paid for renewals, which have no order
		err = tx.ForgetMoved()
	}
	if err == nil {
		err = tx.Append(f)
	}
	if err == nil && f.Corrects > 0 && f.ProxyID != "" { // whether its renewal was charged may have changed
		err = tx.Stale(f.ProxyID)
	}
	return f, err
}

type recording struct {
	Recording
	ledger  *ledger.Ledger
	binding fact.Binding

	// Read before the transaction, which must not wait for another connection.
	walletCents int64
	accepted    map[string]fact.CommandAccepted // by command

	line      tables.RenewalLine // the line that the money belongs to, if any
	lastPrice int64              // its price in cents by the last renewal of its kind, or 0

	answered      int64 // amount of the corrected row
	net, expected int64 // booked net and expected cost of the operation or line that the money belongs to; expected is 0 if unknown
}

// findOrder finds the operation of the order in the record. An order that only the provider
// has was made outside Perennial, so its charge is recorded as external spending and its
// refund as a top-up.
func (p *recording) findOrder(ctx context.Context, shown OrderReader) error {
	if p.OrderNo == "" || p.CorrectsSeq > 0 {
		return nil
	}
	o, err := p.ledger.Money.OrderOperation(ctx, p.OrderNo)
	if err == nil {
		if p.ofOperation() {
			p.OperationID = o.ID
		}
		return nil
	}
	if !errors.Is(err, ledger.ErrNotFound) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, orderReadTimeout)
	defer cancel()
	_, err = shown(ctx, p.OrderNo)
	switch {
	case errors.Is(err, upstream.CodeOrderNotFound), errors.Is(err, upstream.ErrBadID):
		return command.RefuseUnknown("neither the ledger nor the provider knows order %s", p.OrderNo)
	case err != nil:
		return command.Refuse("the ledger does not know order %s, and the provider could not be asked: %v. Record it when the provider answers", p.OrderNo, err)
	}
	switch p.Kind {
	case fact.MovementCharge:
		p.Kind = fact.MovementExternal
	case fact.MovementRefund:
		p.Kind = fact.MovementTopUp
	}
	return p.notAnswered(ctx)
}

// notAnswered refuses a record of external spending if an answer may already have booked the same
// order. Such an answer has the same amount and no order number. A request with an id chosen by
// the operator is accepted.
func (p *recording) notAnswered(ctx context.Context) error {
	if p.Kind != fact.MovementExternal || p.ID != "" && !p.IDMade {
		return nil
	}
	all, err := p.ledger.Money.OrdersWithoutNumber(ctx)
	for _, o := range all {
		if o.State == fact.StateResolved && o.ChargedCents-o.RefundedCents == p.Cents {
			return command.RefuseUnconfirmed("the answer for %s booked %s for an order without a number: if it is order %s, it is booked already. If it is another one, add an id of its own with --id",
				o.ID, p.binding.Amount(p.Cents), p.OrderNo)
		}
	}
	return err
}

func (p *recording) fact(ctx context.Context, tx *ledger.Tx) (f fact.LedgerRecorded, err error) {
	f = fact.LedgerRecorded{
		Movement: p.Kind, AmountCents: p.Cents, By: p.By, Reason: p.Reason, User: fact.UserOf(ctx), OrderNo: p.OrderNo, ID: p.ID, Corrects: p.CorrectsSeq,
		ProxyID: p.ProxyID,
	}
	f.OperationID = p.OperationID
	if p.CorrectsSeq > 0 {
		if err := p.correct(tx, &f); err != nil {
			return f, err
		}
	}
	if f.Movement != fact.MovementCharge && f.Movement != fact.MovementRefund {
		f.OperationID, f.ProxyID = "", ""
		return f, nil
	}
	err = p.complete(tx, &f)
	return f, err
}

func (p *recording) correct(tx *ledger.Tx, f *fact.LedgerRecorded) error {
	booked, err := p.bookedBy(tx, f)
	if err != nil {
		return err
	}
	corrected, err := tx.Corrected(p.CorrectsSeq, booked.Opposite(), f.ProxyID)
	if err != nil {
		return err
	}
	rest := booked.AmountCents - corrected
	p.answered = booked.AmountCents
	if f.Movement == "" {
		f.Movement = booked.Opposite()
	}
	if f.AmountCents == 0 {
		f.AmountCents = rest
	}
	switch opposite := booked.Opposite(); {
	case f.Movement == opposite && rest <= 0 && booked.AmountCents == 0:
		return command.Refuse("the answer in row %d booked no charge, so there is nothing to take back. If it was charged after all, add the amount: `perennial reviews correct %s --charge AMOUNT`", p.CorrectsSeq, f.OperationID)
	case f.Movement == opposite && (rest <= 0 || f.AmountCents > rest):
		return command.Refuse("row %d booked %s, and with its corrections %s: no more than that can be taken back", p.CorrectsSeq, p.binding.Amount(booked.AmountCents), p.binding.Amount(rest))
	case f.Movement != opposite && (booked.ID != "" || f.Movement != fact.MovementCharge || p.Cents == 0):
		return command.Refuse("row %d is taken back by a %s", p.CorrectsSeq, opposite)
	}
	return nil
}

// bookedBy returns what the corrected row of the journal booked. It copies to f the operation,
// the order and the proxy that the money belongs to. If the row is an answer to a review, it
// counts as a charge without an id.
func (p *recording) bookedBy(tx *ledger.Tx, f *fact.LedgerRecorded) (booked fact.LedgerRecorded, err error) {
	was, err := tx.RecordAt(p.CorrectsSeq)
	if err == nil {
		f.OperationID, f.OrderNo, f.ProxyID, f.Account = was.OperationID, was.OrderNo, was.ProxyID, was.Account
		was.ID = cmp.Or(was.ID, "-")
		return was.LedgerRecorded, nil
	}
	if !errors.Is(err, ledger.ErrNotFound) {
		return booked, err
	}
	answer, err := tx.AnswerAt(p.CorrectsSeq)
	if begins, _ := p.ledger.Begins(); errors.Is(err, ledger.ErrNotFound) && begins != nil && p.CorrectsSeq <= begins.Seq {
		return booked, command.RefuseUnknown("row %d of the journal is archived: record what differs with `perennial ledger record --kind refund` or `--kind charge`, and --operation or --order", p.CorrectsSeq)
	}
	if errors.Is(err, ledger.ErrNotFound) {
		err = command.RefuseUnknown("row %d of the journal is neither a record nor an answer to a review: `perennial ledger entries` shows the rows", p.CorrectsSeq)
	}
	booked = fact.LedgerRecorded{Movement: fact.MovementCharge, AmountCents: answer.ChargedCents}
	f.OperationID, f.OrderNo, f.ProxyID = answer.OperationID, answer.OrderNo, cmp.Or(answer.ProxyID, f.ProxyID)
	for _, l := range answer.Lines {
		if l.ProxyID == f.ProxyID || len(answer.Lines) == 1 {
			booked.AmountCents, f.ProxyID = l.ChargedCents, l.ProxyID
		}
	}
	return booked, err
}

func (p *recording) complete(tx *ledger.Tx, f *fact.LedgerRecorded) error {
	o, err := tx.Operation(f.OperationID)
	if errors.Is(err, ledger.ErrNotFound) {
		return command.RefuseUnknown("%s is not an operation: see `perennial operations list`", f.OperationID)
	}
	if err != nil {
		return err
	}
	if !o.State.Ended() {
		return command.Refuse("%s is %s: what it costs is booked when it ends; a review is answered with `perennial reviews resolve`", o.ID, o.State)
	}
	p.net, p.expected = o.ChargedCents-o.RefundedCents, o.EstimateCents
	if o.Kind.OfProxies() {
		if err := p.ofLine(tx, f); err != nil {
			return err
		}
	} else if f.ProxyID != "" {
		return command.Refuse("%s is an order and has no lines", o.ID)
	}
	if f.Movement == fact.MovementRefund && f.AmountCents > p.net {
		return command.Refuse("a refund of %s is more than the %s that are booked for %s", p.binding.Amount(f.AmountCents), p.binding.Amount(p.net), cmp.Or(f.ProxyID, o.ID))
	}
	accepted, read := p.accepted[o.CommandID]
	if !read {
		return &unreadError{o.CommandID}
	}
	f.Ref = fact.Ref{CommandID: o.CommandID, OperationID: o.ID, Labels: accepted.Labels, Trace: accepted.Trace}
	f.OrderNo = o.OrderNo
	return nil
}

func (p *recording) ofLine(tx *ledger.Tx, f *fact.LedgerRecorded) error {
	lines, err := tx.Lines(f.OperationID)
	if err != nil {
		return err
	}
	if f.ProxyID == "" && len(lines) == 1 {
		f.ProxyID = lines[0].ProxyID
	}
	i := slices.IndexFunc(lines, func(l tables.RenewalLine) bool { return l.ProxyID == f.ProxyID })
	switch {
	case f.ProxyID == "":
		const shown = 10 // of the lines
		var booked []string
		for _, l := range lines[:min(len(lines), shown)] {
			booked = append(booked, l.ProxyID+" "+p.binding.Amount(l.ChargedCents-l.RefundedCents))
		}
		return command.Refuse("%s renewed %d proxies: say with --line which one the money is of (booked now: %s)", f.OperationID, len(lines), strings.Join(booked, ", "))
	case i < 0:
		return command.RefuseUnknown("%s has no line %.80q", f.OperationID, f.ProxyID)
	case lines[i].State == fact.LineUnresolved:
		return command.Refuse("line %s of %s needs review: answer it with `perennial reviews resolve`", f.ProxyID, f.OperationID)
	}
	// Without an estimate, the expected amount is the line's earlier charge, even if it was
	// returned.
	p.net, p.expected = lines[i].ChargedCents-lines[i].RefundedCents, cmp.Or(p.expected/int64(len(lines)), lines[i].ChargedCents, p.lastPrice)
	p.line = lines[i]
	return nil
}

// unreadError says that the acceptance of a command must be read before the transaction.
type unreadError struct{ commandID string }

func (e *unreadError) Error() string { return "the acceptance of " + e.commandID + " was not read" }

// confirmed returns a RefusedError for a charge that corrects a row and looks like a
// mistake, unless the request repeats the amount.
func (p *recording) confirmed(f fact.LedgerRecorded) error {
	if p.CorrectsSeq == 0 || f.Movement != fact.MovementCharge {
		return nil
	}
	amount, after := p.binding.Amount(f.AmountCents), p.net+f.AmountCents
	switch {
	case p.ConfirmCents != nil && *p.ConfirmCents != f.AmountCents:
		return command.Refuse("--confirm-amount is %s and the amount %s: repeat the amount", p.binding.Amount(*p.ConfirmCents), amount)
	case p.ConfirmCents != nil:
		return nil
	}
	var why string
	switch {
	case p.expected == 0 && p.answered == 0:
		why = "the ledger does not know what it cost"
	case after > max(p.expected, p.answered) && p.answered > 0:
		why = p.binding.Amount(p.answered) + " was answered"
	case after > max(p.expected, p.answered), p.answered == 0 && 2*after < p.expected:
		why = p.binding.Amount(p.expected) + " is expected"
	case f.AmountCents > p.walletCents:
		why = "the wallet has " + p.binding.Amount(p.walletCents)
	default:
		return nil
	}
	return command.RefuseUnconfirmed("%s would be booked as charged for %s, %s in all, and %s. An amount without a point is in cents. If it is right, add --confirm-amount %s",
		amount, cmp.Or(f.ProxyID, f.OperationID), p.binding.Amount(after), why, fact.Decimal(f.AmountCents))
}

// Overdrawn returns a warning if a record of spending made the ledger balance negative. Otherwise
// it returns "". Such a record is booked anyway, because the top-up that paid for the spending
// may be recorded later.
func Overdrawn(ctx context.Context, l *ledger.Ledger, movement string) (warning string, err error) {
	b, err := l.Money.Balance(ctx, "")
	if err != nil || movement == fact.MovementTopUp || movement == fact.MovementRefund || b.WalletCents >= 0 {
		return "", err
	}
	return fmt.Sprintf("the book's wallet is %s now, and a wallet cannot hold less than nothing: "+
		"record the top-up that is missing, or take a wrong record back with `perennial ledger record --corrects ROW`", fact.Amount(b.WalletCents, b.Currency)), nil
}

// notBackdated returns a RefusedError if the machine's clock is earlier than the last fact
// by more than fact.ClockTolerance.
func notBackdated(tx *ledger.Tx) error {
	last, err := tx.LastTime()
	if err == nil && tx.Now().Before(last.Add(-fact.ClockTolerance)) {
		err = command.Refuse("the clock of the runner says %s and the last fact was written at %s: set the clock, and record again",
			tx.Now().Format(time.RFC3339), last.Format(time.RFC3339))
	}
	return err
}

// recordedBefore returns the record with the same id. It returns ErrNotFound if there is none,
// and a RefusedError if the content differs.
func (p *recording) recordedBefore(tx *ledger.Tx) (r ledger.Record, err error) {
	if p.ID == "" {
		return r, ledger.ErrNotFound
	}
	all, err := tx.RecordsOf(p.ID)
	if err != nil || len(all) == 0 {
		return r, cmp.Or(err, ledger.ErrNotFound)
	}
	r = all[0]
	same := r.Corrects == p.CorrectsSeq && (p.Kind == "" || p.Kind == r.Movement) && (p.Cents == 0 || p.Cents == r.AmountCents) &&
		(p.CorrectsSeq > 0 || p.OperationID == r.OperationID && (p.OrderNo == r.OrderNo || p.OrderNo == ""))
	if !same {
		return r, command.Refuse("the id %s has booked %s of %s before: choose another", p.ID, r.Movement, p.binding.Amount(r.AmountCents))
	}
	for _, part := range all[1:] {
		r.AmountCents, r.Seq = r.AmountCents+part.AmountCents, part.Seq
	}
	return r, nil
}

// sameWithin is the period in which a similar record may be a duplicate.
const sameWithin = 24 * time.Hour

// unlikeOthers refuses a record that resembles one booked within sameWithin, because it may
// be a duplicate. It accepts a record with an id chosen by the operator.
func (p *recording) unlikeOthers(tx *ledger.Tx, f fact.LedgerRecorded) error {
	if p.ID != "" && !p.IDMade || p.CorrectsSeq > 0 {
		return nil
	}
	like, err := tx.RecordLike(f, tx.Now().Add(-sameWithin))
	if errors.Is(err, ledger.ErrNotFound) {
		return nil
	}
	if err == nil {
		err = command.RefuseUnconfirmed("%s recorded %s of %s for the same reason at %s (row %d): if this is another one, give it an id of its own with --id",
			f.By, f.Movement, p.binding.Amount(f.AmountCents), like.At.Format(time.RFC3339), like.Seq)
	}
	return err
}
