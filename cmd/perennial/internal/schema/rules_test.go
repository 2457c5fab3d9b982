// The limits that the schemas add to the types of fields: closed sets of words, minimum and maximum
// numbers, lengths, and the two forms of an order.

package schema

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/invopop/jsonschema"
	"pgregory.net/rapid"

	"perennial/jobs/command"
	"perennial/ledger/fact"
	"perennial/upstream"
)

// maxCommandID is the maximum length of a command's ID; command.CheckID refuses longer ones.
const maxCommandID = 128

type bound func(*jsonschema.Schema)

// typeRules apply to every value of a type.
var typeRules = map[string]bound{
	"fact.State":           oneOf(fact.States...),
	"fact.LineState":       oneOf(lineStates...),
	"fact.Kind":            oneOf(fact.KindOrder, fact.KindRenewal),
	"fact.SkipCode":        oneOf(fact.SkipCodes...),
	"fact.HeldCode":        oneOf(fact.HeldCodes...),
	"fact.SweepHeldCode":   oneOf(fact.SweepHeldCodes...),
	"command.OrderCommand": orderForms,
	"fact.Cents":           all(func(s *jsonschema.Schema) { *s = jsonschema.Schema{Type: "integer", Description: s.Description} }, orNull),
}

var lineStates = []fact.LineState{
	fact.LinePending, fact.LineSkipped, fact.LineSucceeded, fact.LineFailed, fact.LineUnresolved, fact.LineCharged, fact.LineNotCharged,
}

// fieldRules apply to a field of any type by its JSON name, or to one field by its type and Go
// name.
var fieldRules = map[string]bound{
	"charged_cents": least(0), "refunded_cents": least(0), "estimate_cents": least(0), "suspense_cents": least(0),
	"attempt": least(0), "attempts": least(0), "generation": least(1), "revision": least(1), "seq": least(1),
	"scope": oneOf("account", string(fact.KindOrder), string(fact.KindRenewal)),

	"fact.LedgerRecorded.Movement":    oneOf(fact.MovementTopUp, fact.MovementExternal, fact.MovementCharge, fact.MovementRefund),
	"fact.LedgerRecorded.AmountCents": least(1),
	"fact.Restoration.From":           oneOf("backup", "events"),
	"fact.OperationResolved.Outcome":  oneOf("charged", "not_charged"),
	"fact.RenewalSettled.Status":      oneOf("completed", "partial", "failed"),
	"fact.LedgerOpened.Environment":   oneOf(upstream.Sandbox, upstream.Production),
	"fact.CommandFinished.State":      oneOf(slices.DeleteFunc(slices.Clone(fact.States), func(s fact.State) bool { return !s.Ended() })...),
	"fact.FinishedLine.State":         oneOf(append([]fact.LineState{fact.LineState(fact.StateDelivered)}, lineStates...)...),
	"fact.CommandFinished.Lines":      atMostItems(fact.MaxFinishedLines),
	"fact.CommandFinished.Operations": atMostItems(
		fact.MaxFinishedOperations),
	"verbs.ListRequest.Limit": least(0), "verbs.ProxiesRequest.Limit": least(0),
	"verbs.LinesRequest.After": least(0), "verbs.LinesRequest.Limit": least(0),
	"chain.Place.Hash":     func(s *jsonschema.Schema) { s.Pattern = "^[0-9a-f]{64}$" },
	"chain.Place.PrevHash": func(s *jsonschema.Schema) { s.Pattern = "^[0-9a-f]{64}$" },

	"command.OrderCommand.ID":              commandID,
	"command.OrderCommand.DurationDays":    days(math.MaxInt64),
	"command.OrderCommand.Items":           all(atMostItems(upstream.MaxOrderLines), distinct, orNull),
	"command.OrderCommand.OfferCode":       all(idText(command.MaxIDBytes), orNull),
	"command.OrderCommand.Quantity":        all(between(1, upstream.MaxQuantity), orNull),
	"command.OrderCommand.MaxTotalCents":   all(between(1, math.MaxInt64), orNull),
	"command.OrderCommand.NotAfter":        all(instant, orNull),
	"command.OrderCommand.Labels":          all(labels, orNull),
	"command.OrderCommand.SandboxScenario": orNothing(upstream.ScenarioSuccess, upstream.ScenarioDelayed, upstream.ScenarioPartial, upstream.ScenarioRejected),
	"command.OrderCommand.Priority":        orNothing(command.UrgencyHigh, command.UrgencyBulk),
	"command.Item.OfferCode":               idText(command.MaxIDBytes),
	"command.Item.Quantity":                between(1, upstream.MaxQuantity),
	"command.Item.CIDRs":                   all(distinct, eachOf(length(1, command.MaxIDBytes)), orNull),

	"command.RenewalCommand.ID":              commandID,
	"command.RenewalCommand.ProxyIDs":        all(atLeastItems(1), atMostItems(command.MaxProxyIDs), distinct, eachOf(idText(command.MaxIDBytes))),
	"command.RenewalCommand.DurationDays":    days(upstream.MaxRenewDays),
	"command.RenewalCommand.MaxTotalCents":   all(between(1, math.MaxInt64), orNull),
	"command.RenewalCommand.NotAfter":        all(instant, orNull),
	"command.RenewalCommand.DueBefore":       all(instant, orNull),
	"command.RenewalCommand.ExpectExpiresAt": all(func(s *jsonschema.Schema) { instant(s.AdditionalProperties) }, orNull),
	"command.RenewalCommand.Labels":          all(labels, orNull),
	"command.RenewalCommand.Priority":        orNothing(command.UrgencyHigh, command.UrgencyBulk),
}

func all(bounds ...bound) bound {
	return func(s *jsonschema.Schema) {
		for _, b := range bounds {
			b(s)
		}
	}
}

func oneOf[T ~string](words ...T) bound {
	return func(s *jsonschema.Schema) {
		s.Enum = nil
		for _, w := range words {
			s.Enum = append(s.Enum, string(w))
		}
	}
}

// orNothing allows one of these words, or one of the ways in which a command can omit the field.
func orNothing[T ~string](words ...T) bound {
	return func(s *jsonschema.Schema) {
		oneOf(words...)(s)
		s.Enum = append(s.Enum, "", nil)
		orNull(s)
	}
}

// orNull allows null, which commands read like a missing field.
func orNull(s *jsonschema.Schema) {
	if s.Extras == nil {
		s.Extras = map[string]any{}
	}
	s.Extras["type"] = []string{s.Type, "null"}
	s.Type = ""
}

func number(n int64) json.Number { return json.Number(strconv.FormatInt(n, 10)) }

func least(n int64) bound { return func(s *jsonschema.Schema) { s.Minimum = number(n) } }

func between(low, high int64) bound {
	return func(s *jsonschema.Schema) { s.Minimum, s.Maximum = number(low), number(high) }
}

// days is a duration in days: a multiple of 30.
func days(most int64) bound {
	return func(s *jsonschema.Schema) {
		between(upstream.DayStep, most)(s)
		s.MultipleOf = number(upstream.DayStep)
	}
}

func length(low, high uint64) bound {
	return func(s *jsonschema.Schema) { s.MinLength, s.MaxLength = &low, &high }
}

// idText is an ID or a label: printable, and limited in characters. The parser limits bytes, which
// JSON Schema cannot.
func idText(most uint64) bound {
	return func(s *jsonschema.Schema) {
		length(1, most)(s)
		visible(s)
	}
}

// commandID is the ID of a command. JSON Schema cannot require Unicode NFC.
func commandID(s *jsonschema.Schema) {
	idText(maxCommandID)(s)
	s.Pattern = "^[^ ](?:.*[^ ])?$"
	s.AllOf = []*jsonschema.Schema{{Not: &jsonschema.Schema{Pattern: command.OperationSuffix}}}
}

// visible forbids invisible characters.
func visible(s *jsonschema.Schema) { s.Not = &jsonschema.Schema{Ref: "#/$defs/unprintable"} }

// commandDefs are the definitions that the schemas of commands refer to.
func commandDefs() jsonschema.Definitions {
	return jsonschema.Definitions{"unprintable": {
		Type:        "string",
		Pattern:     unprintablePattern(),
		Description: "A text that holds a character that shows nothing, or more than four combining marks in a row. In ECMAScript the pattern needs the flag u.",
	}}
}

func atLeastItems(n uint64) bound { return func(s *jsonschema.Schema) { s.MinItems = &n } }

func atMostItems(n uint64) bound { return func(s *jsonschema.Schema) { s.MaxItems = &n } }

func distinct(s *jsonschema.Schema) { s.UniqueItems = true }

func eachOf(b bound) bound { return func(s *jsonschema.Schema) { b(s.Items) } }

// instant is RFC 3339 as Go reads it: capital T and Z, no leap second, no year 0.
func instant(s *jsonschema.Schema) {
	s.Format = "date-time"
	s.Pattern = `^(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])-[0-9]{2}-[0-9]{2}T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])$`
}

// labels limits each label. The limit of all labels together is in bytes, which JSON Schema cannot
// express.
func labels(s *jsonschema.Schema) {
	most, none := uint64(fact.MaxLabels), uint64(0)
	s.MaxProperties = &most
	s.PropertyNames = &jsonschema.Schema{}
	idText(fact.MaxLabelBytes)(s.PropertyNames)
	s.PropertyNames.Pattern = "^[^ =](?:[^=]*[^ =])?$"
	value := s.AdditionalProperties
	value.Pattern = "^(?:[^ ](?:.*[^ ])?)?$"
	idText(fact.MaxLabelBytes)(value)
	value.MinLength = &none
	orNull(value)
}

// orderForms are the two ways to write an order, of which a command uses one.
func orderForms(s *jsonschema.Schema) {
	one, none := uint64(1), uint64(0)
	empty := &jsonschema.Schema{Type: "array", MaxItems: &none}
	orNull(empty)
	s.OneOf = []*jsonschema.Schema{
		form("Several offers: items", []string{"items"}, map[string]*jsonschema.Schema{
			"items": {Type: "array", MinItems: &one}, "offer_code": {Type: "null"}, "quantity": {Type: "null"},
		}),
		form("One offer: offer_code and quantity", []string{"offer_code", "quantity"}, map[string]*jsonschema.Schema{
			"items": empty, "offer_code": {Type: "string"}, "quantity": {Type: "integer"},
		}),
	}
}

func form(title string, required []string, fields map[string]*jsonschema.Schema) *jsonschema.Schema {
	s := &jsonschema.Schema{Title: title, Required: required, Properties: jsonschema.NewProperties()}
	for _, name := range []string{"items", "offer_code", "quantity"} {
		s.Properties.Set(name, fields[name])
	}
	return s
}

// unprintablePattern returns a regular expression that matches exactly the texts that
// fact.Unprintable refuses. Its syntax is valid in both ECMAScript (flag u) and Go.
func unprintablePattern() string {
	var hidden strings.Builder
	hidden.WriteRune(unicode.ReplacementChar)
	for _, table := range fact.Invisible {
		for _, r := range table.R16 {
			writeRange(&hidden, rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
		for _, r := range table.R32 {
			writeRange(&hidden, rune(r.Lo), rune(r.Hi), rune(r.Stride))
		}
	}
	return fmt.Sprintf(`[^\p{L}\p{M}\p{N}\p{P}\p{S} ]|[%s]|(?:[\p{Mn}\p{Me}]\p{Mc}*){%d}`, hidden.String(), fact.MaxMarks+1)
}

// writeRange adds a range of a Unicode table to a character class.
func writeRange(class *strings.Builder, low, high, stride rune) {
	for r := low; r <= high; r += stride {
		class.WriteRune(r)
		if stride == 1 && low < high {
			class.WriteByte('-')
			class.WriteRune(high)
			return
		}
	}
}

func TestThePatternRefusesWhatIsUnprintable(t *testing.T) {
	pattern := regexp.MustCompile(unprintablePattern())
	same := func(text string) {
		if why := fact.Unprintable(text); (why != "") != pattern.MatchString(text) {
			t.Fatalf("%+q: %q, and the pattern says %v", text, why, pattern.MatchString(text))
		}
	}
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if r < 0xd800 || r > 0xdfff {
			same("a" + string(r))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		runes := rapid.SampledFrom([]rune{'a', ' ', 0x301, 0x302, 0x20dd, 0x903, 0x93e, 0xfe0f, 0x5d0})
		text := string(rapid.SliceOfN(runes, 0, 16).Draw(t, "text"))
		if why := fact.Unprintable(text); (why != "") != pattern.MatchString(text) {
			t.Fatalf("%+q: %q", text, why)
		}
	})
}
