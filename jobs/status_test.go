package jobs

import (
	"database/sql"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"perennial/jobs/command"
	"perennial/jobs/decide"
	"perennial/jobs/desk"
	"perennial/jobs/inspect"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/upstream"
)

func TestACommandStandsWhereItsOperationsStand(t *testing.T) {
	op := func(chunk string, generation int64, state fact.State) fact.Operation {
		return fact.Operation{ID: chunk + string(state), Chunk: chunk, Generation: generation, State: state}
	}
	lines := map[string]map[string]fact.LineState{
		"0001resolved": {"px_1": fact.LineNotCharged},
	}
	for want, operations := range map[string][]fact.Operation{
		"completed": {op("0001", 1, "completed"), op("0002", 1, "completed")},
		"partial":   {op("0001", 1, "completed"), op("0002", 1, "failed")},
		"review":    {op("0001", 1, "completed"), op("0002", 1, "review"), op("0003", 1, "sending")},
		"held":      {op("0001", 1, "held"), op("0002", 1, "accepted")},
		"waiting":   {op("0001", 1, "waiting"), op("0002", 1, "open"), op("0003", 1, "accepted")},
		"delivered": {op("1", 1, "rejected"), op("1", 2, "delivered")},
		"failed":    {op("0001", 1, "resolved"), op("0001", 2, "failed")},
		"refunded":  {op("0001", 1, "resolved"), op("0001/px_1", 2, "refunded")},
		"rejected":  {op("0001", 1, "rejected"), op("0001a", 1, "rejected"), op("0001b", 1, "rejected")},
	} {
		got, err := fact.CommandState(operations, func(id string) (map[string]fact.LineState, error) { return lines[id], nil })
		if check(t, err); got != want {
			t.Errorf("%v: %s, want %s", operations, got, want)
		}
	}
}

func TestACommandThatNeverCameIsNotFound(t *testing.T) {
	h := idleRig(t)
	if _, err := inspect.Status(t.Context(), h.ledger, "none"); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if _, err := inspect.StateOf(t.Context(), h.ledger, "none", "", ""); !errors.Is(err, ledger.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	for name, err := range map[string]error{
		"resolve": h.runner.Resolve(t.Context(), desk.Resolution{ID: "none/1", Charged: new(false), By: "ada", Reason: "x"}),
		"unnamed": h.runner.Resolve(t.Context(), desk.Resolution{ID: "none/1"}),
		"release": second(h.runner.Release(t.Context(), "none", "ada", "x")),
		"cancel":  second(h.runner.Cancel(t.Context(), "none", "ada", "x")),
		"retry":   second(h.runner.Retry(t.Context(), "none", "ada", "x")),
	} {
		if _, ok := errors.AsType[*command.RefusedError](err); !ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// An operator settles an operation while its request hangs. The late reply is recorded as a
// finding and changes nothing. The write of the finding is retried until it succeeds.
func TestAReplyAfterAPersonsAnswerIsAFinding(t *testing.T) {
	t.Parallel()
	h := idleRig(t)
	refused, log := &refusedFindings{h: h}, quiet()
	log.AddHook(refused)
	h.bind(func(c *Config) { c.Log = logrus.NewEntry(log) })
	c, err := command.Parse(fact.KindRenewal, []byte(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`), rulesOfSandbox)
	check(t, err)
	content, hash, err := c.Content()
	check(t, err)
	planned := c.Operations(h.runner.Binding(), c.ProxyIDs, false)
	ref := fact.Ref{CommandID: "keep", OperationID: planned[0].OperationID}
	check(t, h.ledger.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.CommandAccepted{Ref: fact.Ref{CommandID: "keep"}, Kind: c.Kind, ContentHash: hash, Content: content, DurationDays: 30, Operations: planned},
			fact.OperationSending{Ref: ref, Attempt: 1, Key: planned[0].Key, Body: "{}", SentAt: tx.Now(), AppID: "sbx_app_demo"})
	}))
	record, err := h.ledger.Operations.Operation(t.Context(), ref.OperationID)
	check(t, err)
	j, err := h.runner.load(t.Context(), record)
	check(t, err)
	check(t, h.ledger.Write(t.Context(), func(tx *ledger.Tx) error {
		return tx.Append(fact.OperationReview{Ref: ref, Reason: "lost", Ambiguous: true}, fact.OperationResolved{Ref: ref, By: "ada", Reason: "x", Outcome: "not_charged"})
	}))
	late := decide.Decide(j.op, decide.Replied{Moment: decide.Moment{Now: someNoon}, Reply: upstream.Reply{
		Sent: true, Envelope: true, HTTPStatus: 200, Code: upstream.CodeOK, Success: true,
		Renewal: &upstream.Renewal{
			Status: "completed", TotalCents: 300, ChargedCents: 300, Successful: []string{"px_1"},
			LineItems: []upstream.RenewalLine{{ProxyID: "px_1", Status: "succeeded", DurationDays: 30, AmountCents: 300, ChargedCents: 300}},
		},
	}})
	refused.exec(`CREATE TRIGGER full BEFORE INSERT ON journal WHEN NEW.type = 'ledger.discrepancy' BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`)
	_, err = h.runner.record(t.Context(), j, late)
	check(t, err)
	if refused.times != 1 {
		t.Errorf("%d times a finding was not written", refused.times)
	}
	found, ok := h.awaitFact("ledger.discrepancy").(fact.LedgerDiscrepancy)
	if !ok || found.Finding != "late_reply" || !strings.Contains(found.Explanation, "renewal.completed") {
		t.Errorf("%+v", found)
	}
	if s, err := inspect.StateOf(t.Context(), h.ledger, "keep", "", ""); err != nil || s != "resolved" {
		t.Errorf("%s %v", s, err)
	}
}

// refusedFindings makes the ledger refuse findings until the log reports it.
type refusedFindings struct {
	h     *rig
	times int
}

func (f *refusedFindings) exec(query string) {
	shell, err := sql.Open("sqlite3", "file:"+f.h.path)
	check(f.h.t, err)
	_, err = shell.Exec(query)
	check(f.h.t, errors.Join(err, shell.Close()))
}

func (f *refusedFindings) Levels() []logrus.Level { return []logrus.Level{logrus.ErrorLevel} }

func (f *refusedFindings) Fire(e *logrus.Entry) error {
	if strings.HasPrefix(e.Message, "the ledger cannot be written") {
		f.times++
		f.exec(`DROP TRIGGER full`)
	}
	return nil
}

func TestACommandPastItsNotAfterIsNotSent(t *testing.T) {
	t.Parallel()
	h := newRig(t)
	h.renew(`{"id":"late","duration_days":30,"proxy_ids":["px_1"],"not_after":"` + time.Now().Add(-time.Minute).Format(time.RFC3339) + `"}`)
	if s := h.await("late", fact.StateRejected); !strings.Contains(s.Reason, "not_after") {
		t.Errorf("%+v", s)
	}
	h.settled(0, 0)
}

func TestAReasonNamesTheUserThatAsked(t *testing.T) {
	h := idleRig(t)
	h.accepts(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	_, err := h.runner.Cancel(fact.WithUser(t.Context(), "ops"), "keep", "ada", "no longer needed")
	check(t, err)
	s, err := inspect.Status(t.Context(), h.ledger, "keep")
	if err != nil || s.Reason != "cancelled by ada (NATS user ops): no longer needed" {
		t.Errorf("%+v %v", s, err)
	}
}

// The text after a name must come from the NATS server.
func TestANameThatClaimsAUserIsRefused(t *testing.T) {
	h := idleRig(t)
	h.accepts(`{"id":"keep","duration_days":30,"proxy_ids":["px_1"]}`)
	_, err := h.runner.Cancel(t.Context(), "keep", "ada (NATS user ops)", "x")
	if _, ok := errors.AsType[*command.RefusedError](err); !ok || !strings.Contains(err.Error(), "name alone") {
		t.Error(err)
	}
}
