// This file has the results of commands.

package client

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"time"
)

// Money is in cents of the account's currency. ChargedCents is before refunds.
type Money struct {
	ChargedCents  int64  `json:"charged_cents"`
	RefundedCents int64  `json:"refunded_cents"`
	Currency      string `json:"currency"`
}

// Finished is the result of a command: the data of its command.finished event
// (docs/events). If there are several, the one with the highest Revision is valid.
type Finished struct {
	CommandID string            `json:"command_id"`
	Revision  int64             `json:"revision"` // starts at 1
	State     string            `json:"state"`    // see [Finished.Done]
	Code      string            `json:"code"`     // for programs; may be empty
	Reason    string            `json:"reason"`   // for people
	Labels    map[string]string `json:"labels"`
	Totals    Money             `json:"totals"`
	// Lines has at most 200 of LinesTotal lines; [Client.Lines] yields all.
	Lines      []Line      `json:"lines"`
	LinesTotal int         `json:"lines_total"`
	Operations []Operation `json:"operations"`
	Attempts   int64       `json:"attempts"` // requests to the provider
}

// Line is a proxy that an order delivered, or that a renewal contained. Unknown fields are
// empty.
type Line struct {
	ProxyID           string     `json:"proxy_id"`
	State             string     `json:"state"` // delivered, succeeded, failed, skipped, charged, not_charged
	OfferCode         string     `json:"offer_code"`
	CountryCode       string     `json:"country_code"`
	Region            string     `json:"region"`
	LineName          string     `json:"line_name"`
	IPType            string     `json:"ip_type"`
	Protocol          string     `json:"protocol"`
	PreviousExpiresAt *time.Time `json:"previous_expires_at"`
	ExpiresAt         *time.Time `json:"expires_at"`
	ChargedCents      *int64     `json:"charged_cents"`
	RefundedCents     int64      `json:"refunded_cents"`
}

// Operation is one execution of the command, or of a part of it.
type Operation struct {
	OperationID string `json:"operation_id"`
	State       string `json:"state"`
	OrderNo     string `json:"order_no"`
}

// Done reports whether the command was executed completely. It is false for partial,
// failed, refunded and rejected, and for resolved, which is an operator's answer.
func (f Finished) Done() bool { return f.State == "delivered" || f.State == "completed" }

// Lines yields all lines of a finished command, including those beyond the event's limit.
// It ends after it has yielded an error.
func (c *Client) Lines(ctx context.Context, f Finished) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		for _, line := range f.Lines {
			if !yield(line, nil) {
				return
			}
		}
		for seen := len(f.Lines); seen < f.LinesTotal; {
			var page struct {
				Lines []Line `json:"lines"`
			}
			err := c.ask(ctx, "lines", map[string]any{"id": f.CommandID, "after": seen, "limit": linesAtOnce}, &page)
			if err == nil && len(page.Lines) == 0 {
				err = fmt.Errorf("command %.128q: the runner gave %d of %d lines: it was opened again", f.CommandID, seen, f.LinesTotal)
			}
			if err != nil {
				yield(Line{}, err)
				return
			}
			for _, line := range page.Lines {
				if seen++; !yield(line, nil) {
					return
				}
			}
		}
	}
}

// linesAtOnce is how many lines one request asks for.
const linesAtOnce = 1000

// finishedOf decodes the data of a command.finished event.
func finishedOf(data []byte) (f Finished, err error) {
	if err := json.Unmarshal(data, &f); err != nil {
		return f, fmt.Errorf("the end of a command cannot be read: %w", err)
	}
	return f, nil
}
