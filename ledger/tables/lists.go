// Pages of operations, newest first, filtered by state, kind, label, schedule and time.

package tables

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/failpoint"
	"perennial/ledger/sqlite"
)

const (
	// LookedMost limits how many operations one page looks through. For a label or a schedule,
	// it limits how many commands.
	LookedMost = 20_000
	// wholeCommand limits how many operations of one command a page contains. A page may exceed
	// its own limit to end with a whole command.
	wholeCommand = 2_000
)

// OperationsQuery selects operations. Empty fields do not filter. Limit must be set.
type OperationsQuery struct {
	State    fact.State
	Kind     fact.Kind
	Name     string // a label's name; Value is its value
	Value    string
	Schedule string    // only commands that this schedule planned
	From     time.Time // accepted at or after; with Schedule and no label: scheduled at or after
	Until    time.Time // before this instant
	Before   Cursor
	Limit    int
}

// Cursor is the end of a page; the zero Cursor is the start of the list.
type Cursor struct {
	at int64
	id string // a command ID, or the rowid of an operation
}

// String returns the cursor for use in a URL; "" for the zero cursor.
func (c Cursor) String() string {
	if c == (Cursor{}) {
		return ""
	}
	return strconv.FormatInt(c.at, 10) + "." + c.id
}

// CursorOf parses the result of String. Any other text gives the zero cursor.
func CursorOf(text string) Cursor {
	at, id, ok := strings.Cut(text, ".")
	us, err := strconv.ParseInt(at, 10, 64)
	if !ok || err != nil {
		return Cursor{}
	}
	return Cursor{us, id}
}

// At returns the time of the last entry of the page.
func (c Cursor) At() time.Time { return sqlite.FromMicros(c.at) }

// OperationsPage is one page of a list. Next is zero after the last page. A page that has a
// Next may still be short: the query looks through a limited number of operations.
type OperationsPage struct {
	Operations []fact.Operation
	Next       Cursor
}

// way is how a query reads operations through an index, newest first. The keys of the index
// are an instant and a tie-breaker: an operation's rowid or a command ID.
type way struct {
	bound    string // query for the last key that a page looks at; "": every key matches
	keys     string // query for the matching keys between two keys, with their IDs
	commands bool   // the keys are commands, not operations
}

// Parameters: ?1, ?2 are the key before which a page starts, ?3 the first instant, ?4 the
// state, ?5 the kind, ?6 the schedule, ?7, ?8 the label. In bound queries, ?9 is the number
// of keys to pass over. In key queries, ?9, ?10 are the last key and ?11 is the limit.
const (
	listedKey  = ` AND (o.accepted_at, o.rowid) < (?1, CAST(?2 AS INTEGER)) AND o.accepted_at >= ?3`
	listedLast = ` ORDER BY o.accepted_at DESC, o.rowid DESC LIMIT 1 OFFSET ?9`
	listedFit  = ` AND (o.accepted_at, o.rowid) >= (?9, CAST(?10 AS INTEGER)) AND (?4 = '' OR o.state = +?4) AND (?5 = '' OR o.kind = +?5)
		ORDER BY o.accepted_at DESC, o.rowid DESC LIMIT +?11`

	// isNotable is the condition of the index operations_notable.
	isNotable = `o.state <> 'accepted' AND o.state <> 'sending' AND o.state <> 'completed' AND o.state <> 'delivered'`

	hasOperation = ` AND EXISTS (SELECT 1 FROM operations o WHERE o.id > x.command_id || '/' AND o.id < x.command_id || '0' AND o.command_id = x.command_id
		AND (?4 = '' OR o.state = +?4) AND (?5 = '' OR o.kind = +?5))`
)

const (
	kindBound    = `SELECT o.accepted_at, CAST(o.rowid AS TEXT) FROM operations o WHERE o.kind = +?5` + listedKey + listedLast
	kindKeys     = `SELECT o.accepted_at, CAST(o.rowid AS TEXT), o.id FROM operations o WHERE o.kind = +?5` + listedKey + listedFit
	notableBound = `SELECT o.accepted_at, CAST(o.rowid AS TEXT) FROM operations o WHERE o.state = +?4 AND ` + isNotable + listedKey + listedLast
	notableKeys  = `SELECT o.accepted_at, CAST(o.rowid AS TEXT), o.id FROM operations o WHERE o.state = +?4 AND ` + isNotable + listedKey + listedFit
	liveBound    = `SELECT o.accepted_at, CAST(o.rowid AS TEXT) FROM operations o WHERE o.live = 1` + listedKey + listedLast
	liveKeys     = `SELECT o.accepted_at, CAST(o.rowid AS TEXT), o.id FROM operations o WHERE o.live = 1` + listedKey + listedFit
	allKeys      = `SELECT o.accepted_at, o.rowid, o.id FROM operations o WHERE o.kind = 'order'` + listedKey + `
		UNION ALL SELECT o.accepted_at, o.rowid, o.id FROM operations o WHERE o.kind = 'renewal'` + listedKey + `
		ORDER BY 1 DESC, 2 DESC LIMIT +?11`

	ofLabel    = `x.name = ?7 AND x.value = ?8 AND (x.accepted_at, x.command_id) < (?1, ?2) AND x.accepted_at >= ?3`
	labelBound = `SELECT x.accepted_at, x.command_id FROM command_labels x WHERE ` + ofLabel + ` ORDER BY x.accepted_at DESC, x.command_id DESC LIMIT 1 OFFSET ?9`
	labelKeys  = `SELECT x.accepted_at, x.command_id, x.command_id FROM command_labels x WHERE ` + ofLabel + ` AND (x.accepted_at, x.command_id) >= (?9, ?10)` + hasOperation + `
		AND (?6 = '' OR EXISTS (SELECT 1 FROM sweep_commands w WHERE w.command_id = x.command_id AND w.schedule = ?6))
		ORDER BY x.accepted_at DESC, x.command_id DESC LIMIT +?11`

	ofSchedule = `x.schedule = ?6 AND (x.slot_at, x.command_id) < (?1, ?2) AND x.slot_at >= ?3`
	sweptBound = `SELECT x.slot_at, x.command_id FROM sweep_commands x WHERE ` + ofSchedule + ` ORDER BY x.slot_at DESC, x.command_id DESC LIMIT 1 OFFSET ?9`
	sweptKeys  = `SELECT x.slot_at, x.command_id, x.command_id FROM sweep_commands x WHERE ` + ofSchedule + ` AND (x.slot_at, x.command_id) >= (?9, ?10)` + hasOperation + `
		ORDER BY x.slot_at DESC, x.command_id DESC LIMIT +?11`
)

// way returns the way that looks through the fewest operations. It may set q.Kind.
func (q *OperationsQuery) way() way {
	switch {
	case q.Kind != "":
	case q.State == fact.StateCompleted:
		q.Kind = fact.KindRenewal
	case q.State == fact.StateDelivered:
		q.Kind = fact.KindOrder
	}
	switch {
	case q.Name != "":
		return way{labelBound, labelKeys, true}
	case q.Schedule != "":
		return way{sweptBound, sweptKeys, true}
	case q.State == fact.StateAccepted || q.State == fact.StateSending:
		return way{liveBound, liveKeys, false}
	case q.State != "" && q.State != fact.StateCompleted && q.State != fact.StateDelivered:
		return way{notableBound, notableKeys, false}
	case q.Kind != "":
		return way{kindBound, kindKeys, false}
	}
	return way{"", allKeys, false}
}

// listKey is the key of an operation, or of a command, in the index of a way.
type listKey struct {
	Cursor

	of string
}

// OperationsPage lists the operations that match a query, newest first. For a schedule
// without a label, it starts with the newest run. For a label or a schedule, a page ends
// with a whole command, unless that command has thousands of operations.
func (l *Operations) OperationsPage(ctx context.Context, q OperationsQuery) (p OperationsPage, err error) {
	w := q.way()
	first := q.Before
	if first == (Cursor{}) {
		first = Cursor{1<<62 - 1, "9223372036854775807"}
	}
	if !q.Until.IsZero() && sqlite.Micros(q.Until) <= first.at {
		first = Cursor{sqlite.Micros(q.Until), ""} // no ID sorts before ""
	}
	from := int64(0)
	if !q.From.IsZero() {
		from = sqlite.Micros(q.From)
	}
	args := []any{first.at, first.id, from, string(q.State), string(q.Kind), q.Schedule, q.Name, q.Value}
	last, more := Cursor{}, false
	if w.bound != "" {
		err := l.read.QueryRowContext(ctx, w.bound, append(args, failpoint.Size(ctx, "list.looked", LookedMost)-1)...).Scan(&last.at, &last.id)
		if more = err == nil; err != nil && !errors.Is(err, sql.ErrNoRows) {
			return p, err
		}
	}
	keys, err := sqlite.Collect(l.query(ctx, w.keys, append(args, last.at, last.id, q.Limit+1)...), func(s sqlite.Scanner) (k listKey, err error) {
		err = s.Scan(&k.at, &k.id, &k.of)
		return k, err
	})
	for i, k := range keys {
		if err != nil || len(p.Operations) >= q.Limit {
			break
		}
		if p.Operations, err = l.addListed(ctx, p.Operations, w, k.of, q.State); i < len(keys)-1 || more {
			p.Next = k.Cursor
		} else {
			p.Next = Cursor{}
		}
	}
	if more && len(p.Operations) < q.Limit {
		p.Next = last
	}
	return p, err
}

// addListed adds the operation of a key, or all operations of the key's command.
func (l *Operations) addListed(ctx context.Context, all []fact.Operation, w way, id string, state fact.State) ([]fact.Operation, error) {
	if !w.commands {
		o, err := l.Operation(ctx, id)
		return append(all, o), err
	}
	of, err := l.OperationsOf(ctx, id)
	for i, o := range of {
		if i < wholeCommand && (state == "" || o.State == state) {
			all = append(all, o)
		}
	}
	return all, err
}
