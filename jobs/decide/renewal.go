package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"perennial/jobs/command"
	"perennial/ledger/fact"
	"perennial/upstream"
)

// decideRenewal decides on each line item of a renewal, which is the result for one proxy. HTTP
// 200 does not mean that every proxy was renewed. The three lists of the result must partition
// the requested ids and match the line items, and the sums must agree. Otherwise the operation
// needs review.
func decideRenewal(op Operation, h Replied, v Verdict) Decision {
	if h.Reply.Renewal != nil {
		h.Reply.Renewal = incompleteAsUnusable(*h.Reply.Renewal)
	}
	r := h.Reply.Renewal
	if missing := h.unreadable(v, len(op.ProxyIDs)); missing != "" {
		v.Reason = "the renewal's result could not be read: " + fact.Bounded(missing)
		switch {
		case v.meaning == failedLines:
			return review(op, maybeExecuted, v) // operation_failed without lines: the cause is unknown
		case r != nil && r.Status == upstream.RenewalManualReview:
			v.Reason += "; its status is manual_review: do not send it again"
			return review(op, maybeExecuted, v)
		}
		return again(op, h.Moment, h.Elapsed, v)
	}
	switch r.Status {
	case upstream.RenewalCompleted, upstream.RenewalPartial, upstream.RenewalManualReview, upstream.RenewalFailed:
	default:
		v.Reason = fmt.Sprintf("the renewal's status is %q, which the API's document does not give", fact.Bounded(r.Status))
		return review(op, maybeExecuted, v)
	}
	if len(r.Unusable) > 0 {
		r = withUnreadableLines(op.ProxyIDs, *r)
	}
	if r.Status == upstream.RenewalManualReview {
		r = withOpenLines(*r)
	}
	lines, err := partition(op.ProxyIDs, *r)
	if err != nil {
		v.Reason = "the renewal's result does not add up: " + err.Error()
		return review(op, maybeExecuted, v)
	}
	d := settleRenewal(op, v, *r, lines)
	d.Facts = append(overran(op, lines.ChargedCents, v.TraceID), d.Facts...)
	if doubt := amountDoubt(op, v, *r); doubt != nil {
		d.Facts = append(d.Facts, doubt)
	}
	return d
}

func amountDoubt(op Operation, v Verdict, r upstream.Renewal) fact.Fact {
	for _, l := range r.LineItems {
		if !upstream.AmountAgrees(l.Amount, l.AmountCents) {
			return fact.LedgerDiscrepancy{Ref: op.Ref(v.TraceID), Finding: FindingDecimal, ProxyID: l.ProxyID, Explanation: fmt.Sprintf(
				"the line's amount is %q and its amount_cents %d: amount_cents is booked", fact.Bounded(l.Amount), l.AmountCents)}
		}
	}
	return nil
}

// unreadable returns why the result of a renewal cannot be used. It returns "" if the result can
// be used. sent is the number of proxies in the request. A result in which all lines failed may
// omit some fields (customer-api.md, renew, rule 2).
func (h Replied) unreadable(v Verdict, sent int) string {
	r := h.Reply.Renewal
	if r == nil || h.Reply.Malformed != "" {
		return "no data: " + h.Reply.Malformed
	}
	if v.meaning == settled && r.Status == upstream.RenewalFailed {
		return "a success whose status is failed"
	}
	// A list may be absent if the other lists contain every proxy sent (trap 57).
	listed := len(r.Successful)+len(r.Failed)+len(r.Unresolved) == sent
	for _, field := range r.Missing {
		optional := listed && strings.HasSuffix(field, "_proxy_ids") || v.meaning == failedLines && field == "total_cents"
		if !optional && !unknownYet(*r, field) {
			return "no " + field
		}
	}
	return ""
}

func incompleteAsUnusable(r upstream.Renewal) *upstream.Renewal {
	items := r.LineItems
	r.LineItems, r.Unusable = make([]upstream.RenewalLine, 0, len(items)), slices.Clone(r.Unusable)
	for i, line := range items {
		if field := missingField(line); field != "" {
			r.Unusable = append(r.Unusable, upstream.Unusable{ID: line.ProxyID, Position: i + 1, Field: field, Why: "no " + field})
			continue
		}
		r.LineItems = append(r.LineItems, line)
	}
	return &r
}

// unknownYet reports whether a field may be missing because some lines are pending
// verification.
func unknownYet(r upstream.Renewal, field string) bool {
	return strings.HasSuffix(field, "_cents") && unpriced(r) || r.Status == upstream.RenewalManualReview && field == "line_items"
}

// missingField returns a required field that a line item lacks. It returns "" if none is missing.
// An unresolved line needs no amounts.
func missingField(line upstream.RenewalLine) string {
	for _, field := range line.Missing {
		unknown := line.Status == upstream.LineUnresolved && strings.HasSuffix(field, "_cents") // an amount that is not known yet
		if field != "host" && field != "duration_days" && field != "amount" && !unknown {
			return field
		}
	}
	return ""
}

// unpriced reports whether the amount of an unresolved line is unknown. A field may be null while
// it has no value (customer-api.md, Resources), and a manual review may omit a line. A line
// without charged_cents counts as unpriced even if it has amount_cents. The API does not define
// amount_cents, which may be a list price.
func unpriced(r upstream.Renewal) bool {
	for _, l := range r.LineItems {
		if l.Status == upstream.LineUnresolved && (slices.Contains(l.Missing, "charged_cents") || slices.Contains(l.Missing, "amount_cents")) {
			return true
		}
	}
	return r.Status == upstream.RenewalManualReview && len(r.LineItems) < len(r.Successful)+len(r.Failed)+len(r.Unresolved)
}

// withOpenLines adds a line without amounts for each unresolved id that has no line item.
func withOpenLines(r upstream.Renewal) *upstream.Renewal {
	has := make(map[string]bool, len(r.LineItems))
	for _, l := range r.LineItems {
		has[l.ProxyID] = true
	}
	r.LineItems = slices.Clone(r.LineItems)
	for _, id := range r.Unresolved {
		if !has[id] {
			r.LineItems = append(r.LineItems, openLine(id, 0))
		}
	}
	return &r
}

func openLine(id string, charged int64) upstream.RenewalLine {
	return upstream.RenewalLine{
		ProxyID: id, Status: upstream.LineUnresolved, ChargedCents: charged, Missing: []string{"amount_cents", "charged_cents", "refunded_cents"},
	}
}

// withUnreadableLines turns each line item that cannot be read into an unresolved line,
// because its cost is unknown (trap 65). It does not matter which list contains the proxy.
// The result is unchanged unless these items match the proxies without a line.
func withUnreadableLines(ids []string, r upstream.Renewal) *upstream.Renewal {
	lineless := make(map[string]bool, len(ids))
	for _, id := range ids {
		lineless[id] = true
	}
	for _, l := range r.LineItems {
		delete(lineless, l.ProxyID)
	}
	foreign := func(u upstream.Unusable) bool { return u.ID != "" && !lineless[u.ID] }
	if _, err := statesOf(ids, r); err != nil || len(lineless) != len(r.Unusable) || slices.ContainsFunc(r.Unusable, foreign) {
		return &r
	}
	gone := func(id string) bool { return lineless[id] }
	r.Successful, r.Failed = slices.DeleteFunc(slices.Clone(r.Successful), gone), slices.DeleteFunc(slices.Clone(r.Failed), gone)
	r.Unresolved = slices.DeleteFunc(slices.Clone(r.Unresolved), gone)
	rest, refunded := beyondLines(r)
	if refunded > 0 { // belongs to the lines that could not be read, so the other lines need not sum to it
		r.Missing, rest = append(slices.Clone(r.Missing), "refunded_cents"), 0
	}
	if len(r.Unusable) > 1 {
		rest = 0 // unknown which line this charge belongs to
	}
	r.LineItems = slices.Clone(r.LineItems)
	for _, id := range ids {
		if lineless[id] {
			r.Unresolved = append(r.Unresolved, id)
			r.LineItems = append(r.LineItems, openLine(id, rest))
		}
	}
	if r.Status != upstream.RenewalManualReview {
		r.Status = upstream.RenewalPartial
	}
	return &r
}

// beyondLines returns by how much the result's charges and refunds exceed those of its line
// items. It returns 0 in place of a negative difference, and if an amount is invalid.
func beyondLines(r upstream.Renewal) (charged, refunded int64) {
	charged, refunded = r.ChargedCents, r.RefundedCents
	for _, l := range r.LineItems {
		if checkLine(l) != nil {
			return 0, 0
		}
		charged, refunded = charged-l.ChargedCents, refunded-l.RefundedCents
	}
	if charged > MaxLineCents {
		return 0, max(refunded, 0)
	}
	return max(charged, 0), max(refunded, 0)
}

// settleRenewal turns consistent lines into a fact. The charges of unresolved lines go to
// suspense and need review; the other lines are booked.
func settleRenewal(op Operation, v Verdict, r upstream.Renewal, lines fact.Lines) Decision {
	unresolved := 0
	for _, l := range lines.Items {
		if l.State == upstream.LineUnresolved {
			unresolved++
		}
	}
	if r.Status == upstream.RenewalManualReview || unresolved == len(lines.Items) {
		v.Reason = fmt.Sprintf("the provider has %d of %d proxies pending verification: do not send it again", unresolved, len(lines.Items))
		if n := len(r.Unusable); n > 0 {
			v.Reason = fmt.Sprintf("%d of %d proxies are unresolved, and %d line items cannot be read (%s): do not send it again",
				unresolved, len(lines.Items), n, fact.Bounded(r.Unusable[0].Why))
		}
		d := review(op, maybeExecuted, v)
		f, _ := d.Facts[0].(fact.OperationReview)
		f.Settlement = &lines
		d.Facts[0] = f
		return d
	}
	return Decision{Facts: []fact.Fact{fact.RenewalSettled{
		Ref: op.Ref(v.TraceID), Status: r.Status, Attempt: op.Attempts, Code: codeOf(v), Lines: lines,
	}}}
}

func codeOf(v Verdict) string {
	if v.code == upstream.CodeOK {
		return ""
	}
	return string(v.code)
}

// Checks that each requested id is in exactly one list and in one line item with the same state,
// and that the sums agree. The returned charges are gross: the API's charged_cents is net of
// refunds, so refunds are added.
func partition(ids []string, r upstream.Renewal) (fact.Lines, error) {
	state, err := statesOf(ids, r)
	if err != nil {
		return fact.Lines{}, err
	}
	if len(r.LineItems) != len(ids) {
		return fact.Lines{}, fmt.Errorf("%d line items for %d proxies", len(r.LineItems), len(ids))
	}
	var out fact.Lines
	var amount, charged, refunded int64
	for _, l := range r.LineItems {
		if state[l.ProxyID] == "" || state[l.ProxyID] != l.Status {
			return out, fmt.Errorf("line item %q is %q and its list says %q", fact.Bounded(l.ProxyID), fact.Bounded(l.Status), state[l.ProxyID])
		}
		delete(state, l.ProxyID)
		if err := checkLine(l); err != nil {
			return out, err
		}
		amount, charged, refunded = amount+l.AmountCents, charged+l.ChargedCents, refunded+l.RefundedCents
		out.Items = append(out.Items, fact.Line{
			ProxyID: l.ProxyID, State: fact.LineState(l.Status), ChargedCents: l.ChargedCents + l.RefundedCents, RefundedCents: l.RefundedCents,
		})
	}
	out.ChargedCents, out.RefundedCents = charged+refunded, refunded
	if !adds(r, "charged_cents", charged, r.ChargedCents) || !absent(r, "refunded_cents") && refunded != r.RefundedCents {
		return out, fmt.Errorf("line items sum to %d charged and %d refunded, the result says %d and %d", charged, refunded, r.ChargedCents, r.RefundedCents)
	}
	if !adds(r, "total_cents", amount, r.TotalCents) {
		return out, fmt.Errorf("line items amount to %d, the result's total is %d", amount, r.TotalCents)
	}
	return out, agrees(r, len(ids))
}

// An absent field agrees with every sum. If a line's amount is unknown, the sum may be lower than
// the field.
func adds(r upstream.Renewal, field string, sum, says int64) bool {
	return absent(r, field) || sum == says || sum < says && unpriced(r)
}

// MaxLineCents is the largest accepted amount. It keeps sums from overflowing.
const MaxLineCents = int64(1) << 50

func checkLine(l upstream.RenewalLine) error {
	for _, cents := range []int64{l.AmountCents, l.ChargedCents, l.RefundedCents} {
		if cents < 0 || cents > MaxLineCents {
			return fmt.Errorf("line item %q holds an amount of %d hundredths", fact.Bounded(l.ProxyID), cents)
		}
	}
	if l.Status == upstream.LineFailed && l.ChargedCents != 0 {
		return fmt.Errorf("line item %q failed and its charged_cents is %d", fact.Bounded(l.ProxyID), l.ChargedCents)
	}
	if l.Status != upstream.LineFailed && l.RefundedCents != 0 {
		return fmt.Errorf("line item %q is %s and its refunded_cents is %d", fact.Bounded(l.ProxyID), l.Status, l.RefundedCents)
	}
	return nil
}

func statesOf(ids []string, r upstream.Renewal) (map[string]string, error) {
	sent := make(map[string]bool, len(ids))
	for _, id := range ids {
		sent[id] = true
	}
	state := make(map[string]string, len(ids))
	for _, list := range []struct {
		state string
		ids   []string
	}{{upstream.LineSucceeded, r.Successful}, {upstream.LineFailed, r.Failed}, {upstream.LineUnresolved, r.Unresolved}} {
		for _, id := range list.ids {
			if !sent[id] {
				return nil, fmt.Errorf("proxy %q was not asked for", fact.Bounded(id))
			}
			if state[id] != "" {
				return nil, fmt.Errorf("proxy %q is in the lists twice", fact.Bounded(id))
			}
			state[id] = list.state
		}
	}
	if len(state) != len(ids) {
		return nil, fmt.Errorf("%d of %d proxies are in no list", len(ids)-len(state), len(ids))
	}
	return state, nil
}

func agrees(r upstream.Renewal, n int) error {
	ok := true
	switch r.Status {
	case upstream.RenewalCompleted:
		ok = len(r.Successful) == n
	case upstream.RenewalFailed:
		ok = len(r.Failed) == n
	case upstream.RenewalPartial:
		ok = len(r.Successful) < n && len(r.Failed) < n
	case upstream.RenewalManualReview:
		ok = len(r.Unresolved) > 0
	}
	if !ok {
		return fmt.Errorf("the status is %s with %d succeeded, %d failed and %d unresolved", r.Status, len(r.Successful), len(r.Failed), len(r.Unresolved))
	}
	return nil
}

func absent(r upstream.Renewal, field string) bool {
	return slices.Contains(r.Missing, field)
}

// Divides a refused chunk into two operations with their own keys: the known proxies and the
// unknown ones, or two halves if none is unknown. If all are unknown, the refusal applies to each
// proxy, and the result is nil.
func split(op Operation, unknown []string) []fact.Planned {
	half := (len(op.ProxyIDs) + 1) / 2
	first, second := op.ProxyIDs[:half], op.ProxyIDs[half:]
	if len(unknown) > 0 {
		first = slices.DeleteFunc(slices.Clone(op.ProxyIDs), func(id string) bool { return slices.Contains(unknown, id) })
		second = unknown
	}
	if len(first) == 0 {
		return nil
	}
	return parts(op, first, second)
}

// cutToWallet splits a renewal that the wallet cannot pay. The half that expires first
// becomes a new operation. The other half is rejected without a request; an operator can
// retry it, or a later command renews it. Each further refusal halves the operation again,
// until the wallet can pay.
func cutToWallet(op Operation, observed map[string]time.Time, v Verdict) Decision {
	soonest := slices.Clone(op.ProxyIDs)
	slices.SortStableFunc(soonest, func(a, b string) int {
		x, known := observed[a]
		y, other := observed[b]
		switch {
		case known && other:
			return x.Compare(y)
		case known:
			return -1
		case other:
			return 1
		}
		return 0
	})
	first, rest := soonest[:len(soonest)/2], soonest[len(soonest)/2:]
	d := rejected(op, v)
	whole, _ := d.Facts[0].(fact.CommandRejected)
	half := whole
	whole.Reason += "; the half of it that expires first is asked for alone"
	whole.DurationDays, whole.SplitInto = op.DurationDays, parts(op, first, rest)
	half.OperationID, half.Attempt = whole.SplitInto[1].OperationID, 0
	half.Reason += "; it is of the half that expires last, which was not asked for alone"
	d.Facts = []fact.Fact{whole, half}
	return d
}

func parts(op Operation, first, second []string) []fact.Planned {
	return []fact.Planned{
		command.Plan(op.Binding, op.Kind, op.CommandID, op.Chunk+"a", 1, first),
		command.Plan(op.Binding, op.Kind, op.CommandID, op.Chunk+"b", 1, second),
	}
}
