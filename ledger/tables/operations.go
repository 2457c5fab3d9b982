// The present state of operations and commands.

package tables

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/sqlite"
)

// OperationColumns are the columns that ScanOperation reads.
const OperationColumns = `id, command_id, kind, chunk, generation, idempotency_key, state, version, reason, code, trace_id, app_id,
	attempts, ambiguous, coalesce(body_seq, 0), first_sent_at, first_ambiguous_at, next_at, progress_at, order_no,
	expected_count, delivered_count, estimate_cents, charged_cents, refunded_cents, accepted_at, updated_at,
	read_at, unread_since`

// ScanOperation reads a row of OperationColumns.
func ScanOperation(s sqlite.Scanner) (fact.Operation, error) {
	var o fact.Operation
	var firstSent, firstAmbiguous, next, progress, read, unread sql.NullInt64
	var accepted, updated int64
	err := s.Scan(&o.ID, &o.CommandID, &o.Kind, &o.Chunk, &o.Generation, &o.Key, &o.State, &o.Version, &o.Reason, &o.Code, &o.TraceID,
		&o.AppID, &o.Attempts, &o.Ambiguous, &o.BodySeq, &firstSent, &firstAmbiguous, &next, &progress, &o.OrderNo,
		&o.ExpectedCount, &o.DeliveredCount, &o.EstimateCents, &o.ChargedCents, &o.RefundedCents, &accepted, &updated, &read, &unread)
	o.FirstSentAt, o.FirstAmbiguousAt, o.NextAt, o.ProgressAt = sqlite.Instant(firstSent), sqlite.Instant(firstAmbiguous), sqlite.Instant(next), sqlite.Instant(progress)
	o.ReadAt, o.UnreadSince = sqlite.Instant(read), sqlite.Instant(unread)
	o.AcceptedAt, o.UpdatedAt = sqlite.FromMicros(accepted), sqlite.FromMicros(updated)
	return o, err
}

// Operation reads one operation, or sqlite.ErrNone.
func (l *Operations) Operation(ctx context.Context, id string) (fact.Operation, error) {
	return sqlite.One(ScanOperation, l.read.QueryRowContext(ctx, `SELECT `+OperationColumns+` FROM operations WHERE id = ?`, id))
}

// OperationsOfCommand lists a command's operations in the order of acceptance. Its
// parameters are the bounds of the operation IDs and the command ID.
const OperationsOfCommand = `SELECT ` + OperationColumns + ` FROM operations
	WHERE id > ? AND id < ? AND command_id = ? ORDER BY accepted_at, chunk, generation`

// OperationsOf lists a command's operations in the order of acceptance. Operation IDs start
// with the command ID, so the primary key is used.
func (l *Operations) OperationsOf(ctx context.Context, commandID string) ([]fact.Operation, error) {
	return sqlite.Collect(l.query(ctx, OperationsOfCommand, commandID+"/", commandID+"0", commandID), ScanOperation)
}

// OperationsIn lists up to limit unfinished operations in a state, oldest first.
func (l *Operations) OperationsIn(ctx context.Context, state fact.State, limit int) ([]fact.Operation, error) {
	return sqlite.Collect(l.query(ctx, `SELECT `+OperationColumns+` FROM operations WHERE state = +? AND live = 1 ORDER BY accepted_at, id LIMIT +?`,
		string(state), limit), ScanOperation)
}

// Left selects a page of the unfinished operations that an earlier runner left in a state,
// oldest first.
type Left struct {
	State fact.State     // sending or accepted
	Until int64          // the last row before this runner started; later attempts and commands are not left over
	After fact.Operation // the last operation of the previous page; zero for the first page
	Limit int
}

// Left reads a page of the operations that an earlier runner left unfinished.
func (l *Operations) Left(ctx context.Context, x Left) ([]fact.Operation, error) {
	since := int64(0)
	if x.After.ID != "" {
		since = sqlite.Micros(x.After.AcceptedAt)
	}
	return sqlite.Collect(l.query(ctx, `SELECT `+OperationColumns+` FROM operations o WHERE live = 1 AND state = +?1 AND (accepted_at, id) > (?2, ?3)
		AND CASE state WHEN 'sending' THEN body_seq <= ?4 ELSE EXISTS (SELECT 1 FROM commands c WHERE c.id = o.command_id AND c.accepted_seq <= ?4) END
		ORDER BY accepted_at, id LIMIT +?5`, string(x.State), since, x.After.ID, x.Until, x.Limit), ScanOperation)
}

// Due lists unfinished operations of one kind and state whose next step is due, longest due
// first. Kinds are queried separately, so that a paused kind with many due operations does
// not hide another kind.
func (l *Operations) Due(ctx context.Context, state fact.State, kind fact.Kind, now time.Time, limit int) ([]fact.Operation, error) {
	return sqlite.Collect(l.query(ctx, `SELECT `+OperationColumns+` FROM operations
		WHERE kind = +? AND state = +? AND live = 1 AND next_at IS NOT NULL AND next_at <= ?
		ORDER BY next_at, id LIMIT +?`, string(kind), string(state), sqlite.Micros(now), limit), ScanOperation)
}

// AnyDue reports whether any operation is due.
func (l *Operations) AnyDue(ctx context.Context, now time.Time) (due bool, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM operations
		WHERE live = 1 AND next_at IS NOT NULL AND next_at <= ?)`, sqlite.Micros(now)).Scan(&due)
	return due, err
}

// NextAfter returns the earliest instant after now at which an operation becomes due, or
// nil.
func (l *Operations) NextAfter(ctx context.Context, now time.Time) (*time.Time, error) {
	var us sql.NullInt64
	err := l.read.QueryRowContext(ctx, `SELECT min(next_at) FROM operations
		WHERE live = 1 AND next_at IS NOT NULL AND next_at > ?`, sqlite.Micros(now)).Scan(&us)
	return sqlite.Instant(us), err
}

// Unfinished lists up to limit unfinished operations, newest first.
func (l *Operations) Unfinished(ctx context.Context, limit int) ([]fact.Operation, error) {
	return sqlite.Collect(l.query(ctx, `SELECT `+OperationColumns+` FROM operations
		WHERE live = 1 ORDER BY accepted_at DESC, id LIMIT +?`, limit), ScanOperation)
}

// StateCounts returns the number of operations in each state. States without operations are
// left out.
func (l *Operations) StateCounts(ctx context.Context) (counts map[fact.State]int64, err error) {
	counts = make(map[fact.State]int64)
	_, err = sqlite.Collect(l.query(ctx, `SELECT state, n FROM state_counts WHERE n > 0`), func(s sqlite.Scanner) (struct{}, error) {
		var state fact.State
		var n int64
		err := s.Scan(&state, &n)
		counts[state] = n
		return struct{}{}, err
	})
	return counts, err
}

// Command is an accepted command.
type Command struct {
	ID          string
	Kind        fact.Kind
	ContentHash string
	AcceptedSeq int64
	AcceptedAt  time.Time
}

func scanCommand(s sqlite.Scanner) (Command, error) {
	var c Command
	var at int64
	err := s.Scan(&c.ID, &c.Kind, &c.ContentHash, &c.AcceptedSeq, &at)
	c.AcceptedAt = sqlite.FromMicros(at)
	return c, err
}

// Command reads an accepted command, or sqlite.ErrNone.
func (l *Operations) Command(ctx context.Context, id string) (Command, error) {
	return sqlite.One(scanCommand, l.read.QueryRowContext(ctx, `SELECT id, kind, content_hash, accepted_seq, accepted_at FROM commands WHERE id = ?`, id))
}

// Known is what the ledger knows about a command ID: the hash of the accepted content, and
// the hash of the content that was refused last before the acceptance. A hash is "" if there
// is no such content.
type Known struct {
	Kind         fact.Kind
	AcceptedHash string
	RefusedHash  string
}

// KnownCommand selects the fields of Known by command ID.
const KnownCommand = `SELECT coalesce(c.kind, ''), coalesce(c.content_hash, ''), coalesce(r.content_hash, '')
	FROM (SELECT ? AS id) x LEFT JOIN commands c ON c.id = x.id LEFT JOIN rejections r ON r.id = x.id`

// Acceptance reads the fact that accepted a command, with its whole content, or
// sqlite.ErrNone. An archived fact is read from its archive.
func (l *Operations) Acceptance(ctx context.Context, commandID string) (fact.CommandAccepted, error) {
	var fact fact.CommandAccepted
	var data string
	var seq int64
	err := l.read.QueryRowContext(ctx, `SELECT coalesce(j.data, ''), c.accepted_seq FROM commands c LEFT JOIN journal j ON j.seq = c.accepted_seq
		WHERE c.id = ?`, commandID).Scan(&data, &seq)
	if err != nil {
		return fact, sqlite.NotFound(err)
	}
	if data == "" {
		row, err := l.journal.Row(ctx, seq)
		if err != nil {
			return fact, fmt.Errorf("what command %s asked for: %w", commandID, err)
		}
		data = row.Data
	}
	if err := json.Unmarshal([]byte(data), &fact); err != nil {
		return fact, fmt.Errorf("read acceptance of %s: %w", commandID, err)
	}
	return fact, nil
}

// Sent reads the operation.sending fact in a journal row: the key, the body and the time.
func (l *Operations) Sent(ctx context.Context, seq int64) (fact.OperationSending, error) {
	var fact fact.OperationSending
	row, err := l.journal.Row(ctx, seq)
	if err != nil {
		return fact, err
	}
	if err := json.Unmarshal([]byte(row.Data), &fact); err != nil {
		return fact, fmt.Errorf("read the body at journal row %d: %w", seq, err)
	}
	return fact, nil
}

// Rejection says why a command was refused on arrival.
type Rejection struct {
	ContentHash, Code, Reason string
	At                        time.Time
	CommandID                 string // set by Rejections
}

// Rejections lists up to limit commands that were refused since an instant and not accepted
// afterwards, newest first.
func (l *Operations) Rejections(ctx context.Context, since time.Time, limit int) ([]Rejection, error) {
	return sqlite.Collect(l.query(ctx, `SELECT id, content_hash, code, reason, rejected_at FROM rejections r
		WHERE rejected_at >= ? AND NOT EXISTS (SELECT 1 FROM commands c WHERE c.id = r.id) ORDER BY rejected_at DESC, id LIMIT +?`, sqlite.Micros(since), limit), func(s sqlite.Scanner) (r Rejection, err error) {
		var at int64
		err = s.Scan(&r.CommandID, &r.ContentHash, &r.Code, &r.Reason, &at)
		r.At = sqlite.FromMicros(at)
		return r, err
	})
}

// CountRefused counts the commands that Rejections lists.
func (l *Operations) CountRefused(ctx context.Context, since time.Time) (n int64, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT count(*) FROM rejections r
		WHERE rejected_at >= ? AND NOT EXISTS (SELECT 1 FROM commands c WHERE c.id = r.id)`, sqlite.Micros(since)).Scan(&n)
	return n, err
}

// Rejection reads why a command was refused, or sqlite.ErrNone.
func (l *Operations) Rejection(ctx context.Context, commandID string) (Rejection, error) {
	var r Rejection
	var at int64
	err := l.read.QueryRowContext(ctx, `SELECT content_hash, code, reason, rejected_at FROM rejections WHERE id = ?`, commandID).
		Scan(&r.ContentHash, &r.Code, &r.Reason, &at)
	r.At = sqlite.FromMicros(at)
	return r, sqlite.NotFound(err)
}

// CommandEnded reports whether a command was refused, or was accepted and has nothing in
// progress or in review. Publishing the same content again has no effect.
func (l *Operations) CommandEnded(ctx context.Context, id string) (ended bool, err error) {
	err = l.read.QueryRowContext(ctx, `SELECT (EXISTS (SELECT 1 FROM commands WHERE id = ?1)
		OR EXISTS (SELECT 1 FROM rejections WHERE id = ?1)) AND NOT EXISTS (
		SELECT 1 FROM operations o WHERE o.id > ?1 || '/' AND o.id < ?1 || '0' AND o.command_id = ?1
			AND (o.live = 1 OR EXISTS (SELECT 1 FROM lines x WHERE x.operation = o.id AND x.claim = 1)))`, id).Scan(&ended)
	return ended, err
}
