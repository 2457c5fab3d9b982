// Costs writes every booking of an account as CSV, with running sums:
//
//	go run ./docs/events/examples/go/costs [FILE] > costs.csv
//
// Its last sums are charged_cents and refunded_cents of `perennial ledger balance`.
package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"perennial/docs/events/examples/go/events"
)

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	file := ""
	if len(os.Args) > 1 {
		file = os.Args[1]
	}
	err := export(ctx, file, os.Stdout)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// sums are what was booked up to an event.
type sums struct {
	seq               int64
	time              time.Time
	charged, refunded int64
}

func export(ctx context.Context, file string, to io.Writer) error {
	s, err := archived(ctx, file)
	if err != nil {
		return err
	}
	out := csv.NewWriter(to)
	out.UseCRLF = true
	_ = out.Write(strings.Split("seq,time,type,command_id,operation_id,charged_cents,refunded_cents,currency,sum_charged_cents,sum_refunded_cents", ","))
	if s.seq > 0 {
		_ = out.Write(row(s, s.seq, s.time, "archived", "", "", s.charged, s.refunded, ""))
	}
	behind := s.seq
	err = events.Each(ctx, file, func(_ []byte, e events.Event) error {
		d := e.Data
		if d.Booked == nil || d.Ledger.Seq <= behind {
			return nil
		}
		s.charged += d.Booked.ChargedCents
		s.refunded += d.Booked.RefundedCents
		return out.Write(row(s, d.Ledger.Seq, e.Time, e.Type, d.CommandID, d.OperationID, d.Booked.ChargedCents, d.Booked.RefundedCents, d.Booked.Currency))
	})
	out.Flush()
	return errors.Join(err, out.Error())
}

var errFirst = errors.New("the events begin with the first")

// archived is what was booked before the stream's first event, as the last archive says.
func archived(ctx context.Context, file string) (found sums, err error) {
	first := int64(0)
	err = events.Each(ctx, file, func(_ []byte, e events.Event) error {
		if first == 0 {
			first = e.Data.Ledger.Seq
		}
		if first == 1 {
			return errFirst
		}
		if e.Type == "perennial.ledger.archived.v1" {
			found = sums{e.Data.LastSeq, e.Time, e.Data.ChargedCents, e.Data.RefundedCents}
		}
		return nil
	})
	if errors.Is(err, errFirst) {
		return sums{}, nil
	}
	if err == nil && first > 1 && found.seq == 0 {
		err = fmt.Errorf("the events begin with %d, and no archive says what was before", first)
	}
	return found, err
}

func row(s sums, seq int64, at time.Time, kind, command, operation string, charged, refunded int64, currency string) []string {
	n := func(v int64) string { return strconv.FormatInt(v, 10) }
	return []string{n(seq), at.Format(time.RFC3339Nano), kind, text(command), text(operation), n(charged), n(refunded), currency, n(s.charged), n(s.refunded)}
}

// text is a cell that a spreadsheet does not run: one that begins like a formula gets an
// apostrophe.
func text(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		return "'" + s
	}
	return s
}
