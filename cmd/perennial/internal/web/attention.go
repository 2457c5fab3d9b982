// The list of what needs an operator. Each entry has one action. The overview and a separate
// page show the list, and the navigation shows how many things need an operator.

package web

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize/english"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// needsListed limits how many reviews, and how many refused commands, have their own entry.
const needsListed = 10

// need is one thing that needs an operator, with the page where the operator can act.
type need struct {
	Level   string // color of its state: review or held
	Kind    string
	Subject string
	Text    string
	Action  string
	To      string // address of the page
}

// attentionView lists everything that needs an operator.
type attentionView struct {
	Needs    []need
	Unknown  bool // the runner does not answer, so only the ledger's entries are listed
	Paused   []tables.Pause
	Currency string
}

// glance returns the runner's summary of the account without values that take long to compute,
// because a slow answer would be refreshed rarely.
func (s *insight) glance(ctx context.Context, a Account) Made[verbs.Summary] {
	return askNow(ctx, s.figures, a, verbs.AtAGlance, verbs.SummaryRequest{NeedsOnly: true})
}

// badge returns the number of things that need an operator. It returns "?" if the number is
// unknown, and "" if it is 0.
func (s *insight) badge(ctx context.Context, a Account) string {
	n, err := s.needs(ctx, a)
	switch {
	case err != nil || !n.Known:
		return "?"
	case n.Total == 0:
		return ""
	}
	return strconv.FormatInt(n.Total, 10)
}

func (s *overviewPages) attention(q accountRequest) {
	v, err := s.insight.attentionList(q.Context(), q.account)
	if err != nil {
		s.frame.broken(q, err)
		return
	}
	s.frame.show(q, "attention", "Needs attention", v)
}

// attentionList returns the list of what needs an operator. The list has an entry for each
// plan and for each of the first needsListed reviews and refused commands, and a count for
// everything else.
func (s *insight) attentionList(ctx context.Context, a Account) (v attentionView, err error) {
	n, err := s.needs(ctx, a)
	if err != nil {
		return v, err
	}
	if v.Currency, err = currencyOf(ctx, a); err != nil {
		return v, err
	}
	name := a.AccountName()
	v.Unknown, v.Paused = !n.Known, n.Pauses
	v.addReviews(name, n)
	v.addRefused(name, n)
	for _, one := range n.Schedules {
		if one.Plan != "" {
			v.Needs = append(v.Needs, need{"held", "Approval", one.Schedule, planText(ctx, a, one.Plan), "Review plan", to(name, "schedule", "id", one.Schedule)})
		}
	}
	for _, p := range n.Parts() {
		if p.Page == "reviews" || p.Page == verbs.PageRefused || p.One == "plan to approve" { // not counted here, because the list shows each of them
			continue
		}
		v.Needs = append(v.Needs, need{"held", "Check", p.Text(), "", "Open", pageOf(name, p)})
	}
	return v, nil
}

// planText describes what a plan that needs approval renews, and its cost.
func planText(ctx context.Context, a Account, plan string) string {
	v, err := approvalOf(ctx, a.Ledger(), plan)
	if err != nil || v == nil {
		return "The plan needs approval."
	}
	return strings.Join(append([]string{"The plan needs approval: " + v.Text() + "."}, v.Notes...), " ")
}

// pageOf returns the address of the page for one kind of need.
func pageOf(account string, p verbs.Need) string {
	switch p.Page {
	case "proxies":
		return to(account, p.Page, "uncovered", "1")
	case "operations":
		if p.Command == "accounts show" {
			return to(account, "attention") + "#paused"
		}
		return to(account, p.Page, "state", string(fact.StateHeld))
	}
	return to(account, p.Page)
}

// addRefused adds the recently refused commands.
func (v *attentionView) addRefused(account string, n accountNeeds) {
	for _, r := range n.refused {
		v.Needs = append(v.Needs, need{"held", "Refused", r.CommandID, "The command was not accepted, and nothing was sent: " + r.Reason, "Open", to(account, "operation", "id", r.CommandID)})
	}
	if more := n.Refused - int64(len(n.refused)); more > 0 {
		v.Needs = append(v.Needs, need{"held", "Refused", fmt.Sprintf("%d more within 24 hours", more), "`perennial operations list --state rejected --since 1d` lists them.", "Audit", to(account, "log")})
	}
}

func (v *attentionView) addReviews(account string, n accountNeeds) {
	for _, r := range n.reviews {
		one := need{"review", "Review", r.OperationID, "", "Resolve", to(account, "operation", "id", r.OperationID) + "#review"}
		if r.ProxyID != "" {
			one.Subject = r.ProxyID
		}
		switch {
		case r.Ended:
			one.Text = "It was not renewed: decide whether its schedule tries again."
		case r.AtStakeCents.Or(0) > 0:
			one.Text = "Outcome unknown, up to " + fact.Amount(r.AtStakeCents.Or(0), v.Currency) + ": " + r.Reason
		default:
			one.Text = "Outcome unknown, at an unknown price: " + r.Reason
		}
		v.Needs = append(v.Needs, one)
	}
	if more := n.Reviews - int64(len(n.reviews)); more > 0 {
		v.Needs = append(v.Needs, need{"review", "Review", english.Plural(int(more), "further review", ""), "", "Open", to(account, "reviews")})
	}
}
