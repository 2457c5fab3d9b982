// The events that the demonstration prints.

package cli

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"perennial/queue"
)

// demoShown returns the ids of the commands whose events are printed.
func demoShown() []string { return []string{"renew-lost-reply", "buy-rejected"} }

// demoWidth is the maximum width of an event's lines, in characters.
const demoWidth = 118

func (d *demo) printEvents(ctx context.Context) error {
	seq, _, err := d.host.Accounts[0].Ledger().Head(ctx)
	if err != nil {
		return err
	}
	if err := d.events.waitSeq(ctx, uint64(seq)); err != nil {
		return err
	}
	currency, err := d.host.Accounts[0].Ledger().Currency(ctx)
	if err != nil {
		return err
	}
	all := d.events.all()
	fmt.Fprintf(d.app.stdout, "\nEVENTS  %d published on %s, without a gap; those of %s:\n", len(all), queue.EventsStream("main"), strings.Join(demoShown(), " and "))
	for _, e := range all {
		if slices.Contains(demoShown(), commandOf(e)) {
			fmt.Fprintln(d.app.stdout, "  "+wrapped(eventLine(e, currency), demoWidth, "\n            "))
		}
	}
	for i, e := range all {
		if e.Seq != uint64(i+1) {
			return fmt.Errorf("event %d has sequence %d: there is a gap", i+1, e.Seq)
		}
	}
	return nil
}

// wrapped breaks lines that are longer than width between words. It never breaks within an
// amount, because part of an amount could be read as another amount.
func wrapped(text string, width int, breaks string) string {
	const together = "\u00a0" // non-breaking space between an amount and its currency
	out, length := "", 0
	text = anAmount.ReplaceAllString(text, "$1"+together+"$2")
	for i, word := range strings.SplitAfter(text, " ") {
		n := len([]rune(strings.TrimRight(word, " ")))
		if i > 0 && length+n > width && strings.TrimSpace(out) != "" && n > 0 {
			out = strings.TrimRight(out, " ") + breaks
			length = len([]rune(strings.TrimPrefix(breaks, "\n")))
		}
		out += word
		length += len([]rune(word))
	}
	return strings.ReplaceAll(strings.TrimRight(out, " "), together, " ")
}

var anAmount = regexp.MustCompile(`(\d\.\d\d) ([A-Z]{3})\b`)
