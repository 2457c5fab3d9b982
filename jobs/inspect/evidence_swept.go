// This file lists the possible answers about proxies that schedules have given up.

package inspect

import (
	"context"
	"fmt"
	"strings"

	"perennial/ledger"
)

// endingsShown limits how many operations a note lists.
const endingsShown = 10

// sweptAnswers adds the possible answers about proxies that schedules have given up.
func (e *Evidence) sweptAnswers(ctx context.Context, l *ledger.Ledger) error {
	ids, err := l.Operations.SweepReviews(ctx, e.OperationID)
	if err != nil {
		return err
	}
	for _, id := range ids {
		ended, err := l.Operations.EndingsOf(ctx, id, endingsShown)
		if err != nil {
			return err
		}
		names := make([]string, 0, len(ended))
		for _, x := range ended {
			names = append(names, x.OperationID)
		}
		why := "was not renewed by " + strings.Join(names, ", ")
		if len(names) == 0 {
			why = "was renewed, and has expired all the same"
		}
		e.Notes = append(e.Notes, fmt.Sprintf("%s %s: --not-charged leaves it as it is, --not-charged --send-again lets the next run try again", id, why))
		for _, say := range []string{"--not-charged", "--not-charged --send-again"} {
			e.Answers = append(e.Answers, Answer{Say: say, ProxyID: id, Bookings: []ledger.Booking{}})
		}
	}
	return nil
}
