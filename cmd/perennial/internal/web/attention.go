// The list of what needs an operator, each entry with one action. The overview and a page
// of its own show it, and the navigation shows its count.

package web

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/dustin/go-humanize/english"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/ledger"
	"perennial/ledger/fact"
)

// needsListed limits the reviews that are listed one by one.
const needsListed = 10

// need is one thing that needs an operator, and where to act on it.
type need struct {
	Level   string // colour of its state: review or held
	Kind    string
	Subject string
	Text    string
	Action  string
	To      string // the address
}

// attentionView lists everything that needs an operator.
type attentionView struct {
	Needs    []need
	Unknown  bool // the runner does not answer: only the ledger's entries are listed
	Paused   []ledger.Pause
	Currency string
}

// glance returns the runner's summary of the account.
func (s *Server) glance(ctx context.Context, a Account) Made[verbs.Summary] {
	return askNow(ctx, s, a, verbs.AtAGlance)
}

// badge returns the number of things that need an operator, "?" if unknown, "" for none.
func (s *Server) badge(ctx context.Context, a Account) string {
	made := s.glance(ctx, a)
	switch {
	case made.problem() != "":
		return "?"
	case made.Value.Needs.Total == 0:
		return ""
	}
	return strconv.FormatInt(made.Value.Needs.Total, 10)
}

func (s *Server) attention(q accountRequest) {
	v, err := s.needs(q.Context(), q.account)
	if err != nil {
		s.broken(q, err)
		return
	}
	s.show(q, "attention", "Needs attention", v)
}

// needs lists what needs an operator. Reviews and plans are listed one by one, everything
// else as counts.
func (s *Server) needs(ctx context.Context, a Account) (v attentionView, err error) {
	name, glance := a.AccountName(), s.glance(ctx, a)
	v.Unknown = glance.problem() != ""
	if v.Currency, err = currencyOf(ctx, a); err != nil {
		return v, err
	}
	if v.Paused, err = a.Ledger().Pauses(ctx); err != nil {
		return v, err
	}
	if err := v.addReviews(ctx, a); err != nil {
		return v, err
	}
	if err := v.addRefused(ctx, a, s.Clock()); err != nil {
		return v, err
	}
	all, _ := s.sweeps(ctx, a)
	for _, one := range all {
		if one.Plan != "" {
			v.Needs = append(v.Needs, need{"held", "Approval", one.Schedule, planText(ctx, a, one.Schedule, v.Currency), "Review plan", to(name, "schedule", "id", one.Schedule)})
		}
	}
	for _, p := range glance.Value.Needs.Parts() {
		listed := p.Page == "reviews" || p.Page == verbs.PageRefused || p.Page == "schedules" && p.Command == "schedules list" && len(all) > 0 && p.One == "plan to approve"
		if listed {
			continue
		}
		v.Needs = append(v.Needs, need{"held", "Check", p.Text(), "", "Open", pageOf(name, p)})
	}
	return v, nil
}

// planText describes what a schedule's last plan renews, and its price.
func planText(ctx context.Context, a Account, schedule, currency string) string {
	last, err := a.Ledger().LastSlot(ctx, schedule)
	if err != nil {
		return "The plan needs approval."
	}
	due, cost, err := a.Ledger().PlannedSums(ctx, last)
	if err != nil {
		return "The plan needs approval."
	}
	return fmt.Sprintf("The plan needs approval: %s, %s due.", cost.Text(currency), english.Plural(int(due), "proxy", "proxies"))
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
func (v *attentionView) addRefused(ctx context.Context, a Account, now time.Time) error {
	rows, err := a.Ledger().Rejections(ctx, now.Add(-verbs.RefusedFor), needsListed)
	for _, r := range rows {
		v.Needs = append(v.Needs, need{"held", "Refused", r.CommandID, "The command was not accepted, and nothing was sent: " + r.Reason, "Open", addressOf(a, "operation", r.CommandID)})
	}
	if err != nil || len(rows) < needsListed {
		return err
	}
	all, err := a.Ledger().CountRefused(ctx, now.Add(-verbs.RefusedFor))
	if more := all - int64(len(rows)); err == nil && more > 0 {
		v.Needs = append(v.Needs, need{"held", "Refused", fmt.Sprintf("%d more within 24 hours", more), "`perennial operations list --state rejected --since 1d` lists them.", "Audit", to(a.AccountName(), "log")})
	}
	return err
}

func (v *attentionView) addReviews(ctx context.Context, a Account) error {
	rows, err := a.Ledger().FirstReviews(ctx, needsListed)
	if err != nil {
		return err
	}
	for _, r := range rows {
		one := need{"review", "Review", r.OperationID, "", "Resolve", addressOf(a, "operation", r.OperationID) + "#review"}
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
	if len(rows) < needsListed {
		return nil
	}
	all, err := a.Ledger().CountReviews(ctx)
	if more := all - int64(len(rows)); err == nil && more > 0 {
		v.Needs = append(v.Needs, need{"review", "Review", english.Plural(int(more), "further review", ""), "", "Open", to(a.AccountName(), "reviews")})
	}
	return err
}
