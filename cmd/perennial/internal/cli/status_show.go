// The output of `perennial status` for one command with its operations and proxies.

package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"perennial/jobs/inspect"
	"perennial/ledger/fact"
	"perennial/upstream"
)

// statusShown limits the operations, the proxies and the skipped proxies that are shown. A
// command may have thousands of each.
const statusShown = 200

// printStatus prints a command. account is "" if only one account is selected. Only the
// table output is limited by statusShown.
func (a statusCommands) printStatus(account string, s inspect.CommandStatus) error {
	if a.output == "json" {
		return a.listing().add(account, s)
	}
	if account != "" {
		fmt.Fprintf(a.stdout, "account  %s\n", account)
	}
	fmt.Fprintf(a.stdout, "command  %s\nstate    %s\n", s.CommandID, s.State)
	if s.Reason != "" {
		fmt.Fprintf(a.stdout, "reason   %s\n", printable(s.Reason))
	}
	if s.State == string(fact.StateRejected) && len(s.Operations) == 0 {
		fmt.Fprintf(a.stdout, "to do    %s\n", inspect.RefusedNext)
	}
	if s.WaitsFor != "" {
		fmt.Fprintf(a.stdout, "waits    %s\n", printable(s.WaitsFor))
	}
	for _, x := range s.LeftOut[:min(len(s.LeftOut), statusShown)] {
		fmt.Fprintf(a.stdout, "skipped %s: %s\n", printable(x.ProxyID), printable(x.Reason))
	}
	if more := len(s.LeftOut) - statusShown; more > 0 {
		fmt.Fprintf(a.stdout, "skipped %d more: -o json has all\n", more)
	}
	if s.ArchivedIn != "" {
		fmt.Fprintf(a.stdout, "archived what it asked for is in %s, which is not beside the ledger\n", s.ArchivedIn)
	}
	printOperations(a.stdout, s.Operations)
	if o := s.SameID; o != nil {
		fmt.Fprintf(a.stdout, "\noperation %s of command %s has this id too and is %s: see it with --as operation\n", o.OperationID, o.CommandID, o.State)
	}
	return nil
}

// printOperations prints the first operations with their first proxies, and a summary of the
// rest.
func printOperations(w io.Writer, all []inspect.OperationStatus) {
	proxies, shown := 0, all[:min(len(all), statusShown)]
	for _, o := range shown {
		fmt.Fprintf(w, "\n%s  %s\n", o.OperationID, o.StateText())
		for _, line := range operationDetails(o) {
			if line[1] != "" {
				fmt.Fprintf(w, "  %-16s %s\n", line[0], line[1])
			}
		}
		for _, line := range proxiesOf(o) {
			if proxies++; proxies <= statusShown {
				fmt.Fprintln(w, line)
			}
		}
	}
	if text := restOf(all[len(shown):], proxies-statusShown); text != "" {
		fmt.Fprintf(w, "\nand %s: -o json has all\n", text)
	}
}

// proxiesOf returns one line for each proxy of an operation.
func proxiesOf(o inspect.OperationStatus) []string {
	out := make([]string, 0, len(o.ProxyIDs)+len(o.Lines))
	for _, id := range o.ProxyIDs {
		out = append(out, fmt.Sprintf("  %-16s %s", "proxy", printable(id)))
	}
	for _, l := range o.Lines {
		out = append(out, fmt.Sprintf("  %-16s %s  %s", l.ProxyID, l.State, o.LineText(l)))
	}
	return out
}

// restOf counts the omitted operations by state. proxies is how many proxies of the shown
// operations are omitted.
func restOf(operations []inspect.OperationStatus, proxies int) string {
	var parts []string
	if proxies > 0 {
		parts = append(parts, fmt.Sprintf("%d more proxies of these", proxies))
	}
	if len(operations) == 0 {
		return strings.Join(parts, " and ")
	}
	states := make(map[fact.State]int)
	for _, o := range operations {
		states[o.State]++
	}
	counts := make([]string, 0, len(states))
	for _, state := range slices.Sorted(maps.Keys(states)) {
		counts = append(counts, fmt.Sprintf("%d %s", states[state], state))
	}
	return strings.Join(append(parts, fmt.Sprintf("%d more operations (%s)", len(operations), strings.Join(counts, ", "))), " and ")
}

func operationDetails(o inspect.OperationStatus) [][2]string {
	delivered := ""
	if o.ExpectedCount > 0 {
		delivered = fmt.Sprintf("%d of %d", o.DeliveredCount, o.ExpectedCount)
	}
	return [][2]string{
		{"key", o.IdempotencyKey}, {"reason", printable(o.Reason)}, {"attempts", attemptsText(o)}, {"order", o.OrderNo},
		{"delivered", delivered}, {"charged", o.ChargedText()}, {"refunded", money(o.RefundedCents, o.Currency)}, {"net", o.NetText()}, {"corrected", printable(strings.Join(o.Corrected, "; "))},
		{"next", stamp(o.NextAt)}, {"trace id", o.TraceID}, {"to do", nextStep(o)},
	}
}

// attemptsText returns the number of attempts. After several attempts, it adds the CLI
// command that shows each, except during a review, because nextStep contains that command.
func attemptsText(o inspect.OperationStatus) string {
	text := strconv.FormatInt(o.Attempts, 10)
	if o.Attempts > 1 && o.State != fact.StateReview {
		text += ", `perennial reviews show " + o.OperationID + "` shows each"
	}
	return text
}

// nextStep says what an operator can do about an operation that needs review or was
// rejected. It returns "" for other operations.
func nextStep(o inspect.OperationStatus) string {
	if o.State == fact.StateReview {
		return "`perennial reviews show " + o.OperationID + "` shows the evidence, and how to answer"
	}
	if o.State != fact.StateRejected {
		return ""
	}
	switch upstream.Code(o.Code) {
	case upstream.CodeOfferNotFound:
		return "nothing was charged; `perennial offers list` shows what can be bought"
	case upstream.CodeInsufficientWallet:
		return "nothing was charged; top the wallet up, then `perennial retry " + o.OperationID + "`"
	case upstream.CodeProxyNotFound:
		return "nothing was charged; `perennial proxies list --live` shows the proxies that the provider has"
	case fact.CodeCeiling:
		return "nothing was charged; publish it under another id, with a larger --max"
	case upstream.CodeValidationError:
		return "nothing was charged; correct the command, and publish it under another id"
	}
	return ""
}
