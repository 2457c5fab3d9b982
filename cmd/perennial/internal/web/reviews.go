// The list of reviews, and one answer to several reviews.

package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

const (
	// reviewsShown limits the reviews on the page, which shows the oldest.
	reviewsShown = 500
	// answeredAtOnce limits the answers of one form, so that a person can see them all.
	answeredAtOnce = 100
	// answersWithin limits the time for one form's answers. It is shorter than the 30 s that
	// the server gives a request.
	answersWithin = 25 * time.Second
)

// reviewsView groups similar reviews.
type reviewsView struct {
	Groups   []reviewGroup
	Waiting  int64
	Shown    int
	AtStake  fact.Sum // the money at risk in the shown reviews
	Currency string
}

// reviewGroup is a list of similar reviews. One answer may apply to all of them.
type reviewGroup struct {
	Code, Reason string
	Ended        bool // no money at risk: the answer decides only whether schedules try again
	Lines        bool // whether the reviews are about single proxies
	Rows         []tables.Review
	AtStake      fact.Sum
	Priced       bool // every exposure is known and not 0
}

func (s *operationPages) reviews(q accountRequest) (page, error) {
	ctx, l := q.Context(), q.account.Ledger()
	rows, err := l.Operations.FirstReviews(ctx, reviewsShown)
	v := reviewsView{Shown: len(rows), Waiting: int64(len(rows))}
	if err == nil && len(rows) == reviewsShown {
		v.Waiting, err = l.Operations.CountReviews(ctx)
	}
	if err == nil {
		v.Currency, err = currencyOf(ctx, q.account)
	}
	if err != nil {
		return page{}, err
	}
	for _, r := range rows {
		v.add(r)
	}
	return page{name: "reviews", title: "Reviews", data: v}, nil
}

func (v *reviewsView) add(r tables.Review) {
	v.AtStake = v.AtStake.Add(r.AtStakeCents)
	i := slices.IndexFunc(v.Groups, func(g reviewGroup) bool {
		return g.Code == r.Code && g.Reason == r.Reason && g.Ended == r.Ended && g.Lines == (r.ProxyID != "")
	})
	if i < 0 {
		i = len(v.Groups)
		v.Groups = append(v.Groups, reviewGroup{Code: r.Code, Reason: r.Reason, Ended: r.Ended, Lines: r.ProxyID != "", Priced: true})
	}
	g := &v.Groups[i]
	g.AtStake = g.AtStake.Add(r.AtStakeCents)
	g.Rows, g.Priced = append(g.Rows, r), g.Priced && r.AtStakeCents.Or(0) > 0
}

type answered struct {
	What    string // operation, and proxy if any
	Done    bool
	Unknown bool // the answer may have been booked, or may still be booked
	Why     string
	Command string
}

type answeredView struct {
	Rows []answered
	Done int
}

// resolveSeveral answers several reviews in turn, each as the operation's page does.
func (s *operationPages) resolveSeveral(q accountRequest) (page, error) {
	name := q.account.AccountName()
	if !q.session.MayChange(name) {
		return page{}, &pageError{http.StatusForbidden, "You are signed in as a viewer: nothing was changed.", nil}
	}
	reason := strings.TrimSpace(q.PostFormValue("reason"))
	chosen := q.PostForm["review"]
	var err error
	switch {
	case len(chosen) == 0:
		err = errors.New("choose what is answered")
	case len(chosen) > answeredAtOnce:
		err = fmt.Errorf("choose %d at most at once", answeredAtOnce)
	case reason == "":
		err = errors.New("say why: the reason is kept with your name")
	}
	if err != nil {
		return page{}, &pageError{http.StatusUnprocessableEntity, "Nothing was changed: " + err.Error() + ".", nil}
	}
	ctx, cancel := context.WithTimeout(q.Context(), answersWithin)
	defer cancel()
	var v answeredView
	for _, text := range chosen {
		one := s.resolveOne(ctx, q, text, reason)
		if v.Rows = append(v.Rows, one); one.Done {
			v.Done++
		}
	}
	s.Log.WithField("account", name).WithField("by", q.session.Name).WithField("change", "resolve").WithField("done", v.Done == len(v.Rows)).Info(fmt.Sprintf("%d of %d answers were asked for on the pages and given", v.Done, len(v.Rows)))
	return page{name: "answered", title: fmt.Sprintf("%d of %d answered", v.Done, len(v.Rows)), data: v}, nil
}

// reviewKey encodes a review and its exposure for a form.
func reviewKey(r tables.Review) string {
	return url.Values{"id": {r.OperationID}, "line": {r.ProxyID}, "cents": {strconv.FormatInt(r.AtStakeCents.Or(0), 10)}}.Encode()
}

// resolveOne answers one of several reviews, identified by its reviewKey.
func (s *operationPages) resolveOne(ctx context.Context, q accountRequest, key, reason string) (one answered) {
	review, err := url.ParseQuery(key)
	if err != nil || review.Get("id") == "" {
		return answered{What: key, Why: "the form does not name a review: load the page again"}
	}
	one.What = strings.TrimSpace(review.Get("id") + " " + review.Get("line"))
	form := func(field string) string {
		switch field {
		case "id", "line":
			return review.Get(field)
		case "order":
			return ""
		case "answer":
			if q.PostFormValue("answer") == "at_stake" {
				return "charged"
			}
		case "amount":
			if cents, err := strconv.ParseInt(review.Get("cents"), 10, 64); q.PostFormValue("answer") == "at_stake" && err == nil && cents > 0 {
				return fact.Decimal(cents)
			}
		}
		return strings.TrimSpace(q.PostFormValue(field))
	}
	do, command, err := resolve(form)
	if err == nil && ctx.Err() != nil {
		err = errors.New("it was not asked for: the answers before it took too long")
	}
	if err == nil {
		one.Command = changes["resolve"].cli(q, command, reason)
		_, err = s.do(ctx, q, changes["resolve"], do, reason)
	}
	if one.Done = err == nil; err != nil {
		one.Why, one.Unknown = err.Error(), errors.Is(err, ErrNoAnswer)
	}
	if errors.Is(err, ErrUnconfirmed) {
		one.Why = confirmReason(err) + ". If it is right, answer again and mark that it is"
	}
	return one
}
