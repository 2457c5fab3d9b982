package fact

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"
)

// instantFormat always has microseconds, the precision of the ledger.
const instantFormat = `"2006-01-02T15:04:05.000000Z"`

// The options encode like encoding/json, but without HTML escapes. All instants are written in
// UTC, in instantFormat.
var encoding = jsonv2.JoinOptions(jsonv1.DefaultOptionsV1(), jsontext.EscapeForHTML(false), jsonv2.WithMarshalers(jsonv2.MarshalToFunc(
	func(e *jsontext.Encoder, t time.Time) error {
		utc := t.UTC()
		if y := utc.Year(); y < 0 || y > 9999 {
			return fmt.Errorf("the year %d of an instant cannot be written", y)
		}
		return e.WriteValue(utc.AppendFormat(e.AvailableBuffer(), instantFormat))
	})))

// Encode appends the JSON of a fact to text. v may also be reply data that contains facts.
func Encode(text *bytes.Buffer, v any) error { return jsonv2.MarshalWrite(text, v, encoding) }

// The list has a value of each type of fact, so that journals of any age can be decoded.
var all = []Fact{
	LedgerOpened{}, LedgerRecorded{}, LedgerReconciled{}, LedgerUncompared{}, LedgerDiscrepancy{}, LedgerArchived{}, LedgerBounded{}, RunnerStarted{},
	CommandAccepted{}, CommandFinished{}, CommandRejected{}, CommandConflict{}, CommandHeld{}, CommandReleased{}, CommandCancelled{},
	OperationSending{}, OperationUnsent{}, OperationWaiting{}, OperationReview{}, OperationResolved{}, OperationOverran{},
	OrderAccepted{}, OrderProgressed{}, OrderDelivered{}, OrderRefunded{}, OrderListed{},
	RenewalSettled{Status: "completed"}, RenewalSettled{Status: "partial"}, RenewalSettled{Status: "failed"},
	SweepPlanned{}, SweepHeld{}, SweepFinished{}, SweepMissed{}, SweepFailed{}, ListingShrunk{}, ListingUncovered{}, ScheduleConfigured{}, SchedulePaused{}, ScheduleResumed{},
	ProxySkipped{}, ProxyExpiring{}, ProxyExpired{}, ProxyGone{}, ProxyRetired{}, ProxyReinstated{}, ProxyReplaced{}, ProxyReview{}, ProxyRevealed{},
	AccountPaused{}, AccountResumed{}, DeadRequeued{}, DeadDropped{},
}

// The names of the types in the journal. They never change.
func (LedgerOpened) FactType() string       { return "ledger.opened" }
func (LedgerRecorded) FactType() string     { return "ledger.recorded" }
func (LedgerReconciled) FactType() string   { return "ledger.reconciled" }
func (LedgerUncompared) FactType() string   { return "ledger.uncompared" }
func (LedgerDiscrepancy) FactType() string  { return "ledger.discrepancy" }
func (LedgerArchived) FactType() string     { return "ledger.archived" }
func (LedgerBounded) FactType() string      { return "ledger.bounded" }
func (RunnerStarted) FactType() string      { return "runner.started" }
func (CommandAccepted) FactType() string    { return "command.accepted" }
func (CommandFinished) FactType() string    { return "command.finished" }
func (CommandRejected) FactType() string    { return "command.rejected" }
func (CommandConflict) FactType() string    { return "command.conflict" }
func (CommandHeld) FactType() string        { return "command.held" }
func (CommandReleased) FactType() string    { return "command.released" }
func (CommandCancelled) FactType() string   { return "command.cancelled" }
func (OperationSending) FactType() string   { return "operation.sending" }
func (OperationUnsent) FactType() string    { return "operation.unsent" }
func (OperationWaiting) FactType() string   { return "operation.waiting" }
func (OperationReview) FactType() string    { return "operation.review" }
func (OperationResolved) FactType() string  { return "operation.resolved" }
func (OperationOverran) FactType() string   { return "operation.overran" }
func (OrderAccepted) FactType() string      { return "order.accepted" }
func (OrderProgressed) FactType() string    { return "order.progressed" }
func (OrderDelivered) FactType() string     { return "order.delivered" }
func (OrderRefunded) FactType() string      { return "order.refunded" }
func (OrderListed) FactType() string        { return "order.listed" }
func (f RenewalSettled) FactType() string   { return "renewal." + f.Status }
func (SweepPlanned) FactType() string       { return "sweep.planned" }
func (SweepHeld) FactType() string          { return "sweep.held" }
func (SweepFinished) FactType() string      { return "sweep.finished" }
func (SweepMissed) FactType() string        { return "sweep.missed" }
func (SweepFailed) FactType() string        { return "sweep.failed" }
func (ListingShrunk) FactType() string      { return "listing.shrunk" }
func (ListingUncovered) FactType() string   { return "listing.uncovered" }
func (ScheduleConfigured) FactType() string { return "schedule.configured" }
func (SchedulePaused) FactType() string     { return "schedule.paused" }
func (ScheduleResumed) FactType() string    { return "schedule.resumed" }
func (ProxySkipped) FactType() string       { return "proxy.skipped" }
func (ProxyExpiring) FactType() string      { return "proxy.expiring" }
func (ProxyExpired) FactType() string       { return "proxy.expired" }
func (ProxyGone) FactType() string          { return "proxy.gone" }
func (ProxyRetired) FactType() string       { return "proxy.retired" }
func (ProxyReinstated) FactType() string    { return "proxy.reinstated" }
func (ProxyReplaced) FactType() string      { return "proxy.replaced" }
func (ProxyReview) FactType() string        { return "proxy.review" }
func (ProxyRevealed) FactType() string      { return "proxy.revealed" }
func (AccountPaused) FactType() string      { return "account.paused" }
func (AccountResumed) FactType() string     { return "account.resumed" }
func (DeadRequeued) FactType() string       { return "dead.requeued" }
func (DeadDropped) FactType() string        { return "dead.dropped" }

// A fact about a single proxy has the proxy's id as its subject.
func (f ProxyExpiring) Subject() string   { return f.ProxyID }
func (f ProxyExpired) Subject() string    { return f.ProxyID }
func (f ProxyGone) Subject() string       { return f.ProxyID }
func (f ProxyRevealed) Subject() string   { return f.ProxyID }
func (f ProxyRetired) Subject() string    { return f.ProxyID }
func (f ProxyReinstated) Subject() string { return f.ProxyID }
func (f ProxyReplaced) Subject() string   { return f.ProxyID }

var types = func() map[string]reflect.Type {
	byName := map[string]reflect.Type{}
	for _, f := range all {
		byName[f.FactType()] = reflect.TypeOf(f)
	}
	return byName
}()

// Types returns a zero value of each type of fact by name. It is used to generate schemas.
func Types() map[string]Fact {
	zeros := map[string]Fact{}
	for name, t := range types {
		zeros[name], _ = reflect.TypeAssert[Fact](reflect.Zero(t))
	}
	return zeros
}

// UnknownError reports a fact from a later version of the program. This version does not
// know the fact's type, or a field of its data.
type UnknownError struct {
	Type  string // type of the fact
	Field string // "" if the type is unknown
}

// What describes the unknown type or field.
func (e *UnknownError) What() string {
	if e.Field != "" {
		return fmt.Sprintf("field %q of fact type %q", e.Field, e.Type)
	}
	return fmt.Sprintf("fact type %q", e.Type)
}

func (e *UnknownError) Error() string {
	return e.What() + " is not known to this version: use the version that wrote it, or a later one"
}

// Decode decodes a journal row's data into its fact. Fields may have current or former
// names. It returns an *UnknownError for a type or field that this version does not know,
// because ignoring it would make derived tables wrong.
func Decode(factType string, data []byte) (Fact, error) {
	t, ok := types[factType]
	if !ok {
		return nil, &UnknownError{Type: factType}
	}
	f, err := decodeStrictly(t, data)
	if err != nil && renamed[factType] != nil {
		f, err = decodeStrictly(t, withPresentNames(factType, data))
	}
	if err != nil {
		if semantic, ok := errors.AsType[*jsonv2.SemanticError](err); ok && errors.Is(err, jsonv2.ErrUnknownName) {
			return nil, &UnknownError{Type: factType, Field: semantic.JSONPointer.LastToken()}
		}
		return nil, fmt.Errorf("decode %s: %w", factType, err)
	}
	return f, nil
}

// decoding is encoding/json's decoding, except that it rejects unknown fields.
var decoding = jsonv2.JoinOptions(jsonv1.DefaultOptionsV1(), jsonv1.ReportErrorsWithLegacySemantics(false), jsonv2.RejectUnknownMembers(true))

func decodeStrictly(t reflect.Type, data []byte) (Fact, error) {
	v := reflect.New(t)
	if err := jsonv2.Unmarshal(data, v.Interface(), decoding); err != nil {
		return nil, err
	}
	f, _ := reflect.TypeAssert[Fact](v.Elem())
	return f, nil
}

// AppendField appends a text, prefixed with its length, so that different lists of fields
// have different encodings. The encoding must never change, because hashes and keys depend
// on it.
func AppendField(buf []byte, s string) []byte {
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(s)))
	return append(buf, s...)
}

// For each fact type, renamed maps former names of fields to current names. A field of a nested
// object is given by its path, such as "left.proxies".
var renamed = map[string]map[string]string{
	"ledger.discrepancy": {"kind": "finding"},
	"ledger.recorded":    {"kind": "movement", "cents": "amount_cents"},
	"proxy.skipped":      {"skipped.expires_at": "read_expires_at"},
	"sweep.finished":     {"commands": "published"},
	"sweep.held":         {"wallet_cents": "provider_cents"},
	"sweep.planned":      {"planned.proxies": "proxy_count", "left.proxies": "proxy_count"},
}

// withPresentNames returns a fact's data with the current names of its fields. It returns
// data unchanged if it is not valid JSON.
func withPresentNames(factType string, data []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return data
	}
	rename(value, "", renamed[factType])
	present, err := json.Marshal(value)
	if err != nil {
		return data
	}
	return present
}

// rename changes the names within a value. path is the value's path with a trailing dot.
func rename(value any, path string, names map[string]string) {
	switch v := value.(type) {
	case []any:
		for _, x := range v {
			rename(x, path, names)
		}
	case map[string]any:
		for key, x := range v {
			rename(x, path+key+".", names)
		}
		for former, present := range names {
			key, here := strings.CutPrefix(former, path)
			if x, ok := v[key]; here && ok {
				delete(v, key)
				v[present] = x
			}
		}
	}
}
