// The descriptions in the schemas: doc comments of the Go types, kept in a file that is
// part of the binary.

package cli

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"
)

// schemaWords.json has the comment of each type and field whose JSON is published, made
// from the sources by the tests with -update.
//
//go:embed schema_words.json
var schemaWordsFile []byte

// readSchemaWords are the comments by type ("fact.Line") and field ("fact.Line.State").
func readSchemaWords() (map[string]string, error) {
	var words map[string]string
	err := json.Unmarshal(schemaWordsFile, &words)
	return words, err
}

// commonWords describe fields that say the same wherever they are, and have no comment
// in the sources.
var commonWords = map[string]string{
	"account_id":              "The provider's id of the account.",
	"ambiguous":               "The send may have been carried out.",
	"app_id":                  "The id of the API key that signed, without its secret.",
	"attempt":                 "Which send of the operation it was, from 1.",
	"attempts":                "How often its operations were sent.",
	"base_url":                "The provider's address.",
	"body":                    "The exact body of the request.",
	"by":                      "The name of the person, as the request gave it.",
	"cause":                   "Why, in one word: rate_limited, insufficient_wallet_balance, …",
	"chunk":                   "The part of the command, such as 0001.",
	"cidrs":                   "The ranges that addresses are to be taken from.",
	"code":                    "Why, as a code: the provider's, or one of Perennial's.",
	"command":                 "The command, as it is published.",
	"command_id":              "The id of the command, chosen by its producer.",
	"commands":                "The commands, as they are published.",
	"content":                 "The command, read and normalised.",
	"content_hash":            "SHA-256 of the content.",
	"accepted_hash":           "SHA-256 of the content that was accepted first.",
	"country_code":            "Where its address is, as the provider says.",
	"currency":                "The account's currency, as ISO 4217 has it.",
	"charged_cents":           "What was charged, gross: before refunds.",
	"refunded_cents":          "What came back.",
	"delivered_count":         "How many proxies are available.",
	"expected_count":          "How many proxies the order is for.",
	"destination":             "Where the money went, as the provider says.",
	"detail":                  "Why, for people.",
	"due":                     "How many proxies are due.",
	"due_before":              "Leave out proxies that expire at this instant or later.",
	"duration_days":           "For how many days: a multiple of 30.",
	"environment":             "The provider's environment.",
	"epoch":                   "The history since the ledger was made, or restored last.",
	"estimate_cents":          "What it is expected to cost, where that is known.",
	"expect_expires_at":       "Leave out proxies whose expiry is another, by proxy.",
	"expires_at":              "When it expires.",
	"explanation":             "The difference, for people.",
	"external_cents":          "What was spent outside Perennial.",
	"expiring":                "How many of them expire before the next slot.",
	"first_expires_at":        "When the first of them expires.",
	"from":                    "What it was restored from.",
	"object":                  "The name of the snapshot in the bucket.",
	"outcome":                 "What the person found.",
	"first_seq":               "The first row.",
	"funding_cents":           "What was put in: the opening balance and top-ups.",
	"generation":              "How often this part of the command was sent again under a new key, from 1.",
	"hash":                    "The row's hash.",
	"holder":                  "The process that works on the account.",
	"http_status":             "The HTTP status of the reply.",
	"id":                      "Chosen by the producer. The same id with the same content is the same command, whenever it comes.",
	"idempotency_key":         "The key under which the provider does the operation once.",
	"ip_type":                 "Residential, or of a data centre, as the provider says.",
	"items":                   "The lines.",
	"kind":                    "What the command asks for.",
	"finding":                 "What differs, in one word: docs/operations.md, Findings.",
	"movement":                "What moved: money into the wallet, or out of it for something that was bought elsewhere.",
	"proxy_count":             "How many proxies.",
	"labels":                  "The labels of the command, as its producer gave them.",
	"last_hash":               "The hash of the last row.",
	"last_seq":                "The last row.",
	"left_out":                "How many due proxies are left out.",
	"line_name":               "The provider's name of the line.",
	"lines_total":             "How many lines there are.",
	"max_total_cents":         "The ceiling for the whole command, checked before sending; none where it is left out.",
	"next_at":                 "When it goes on, at the earliest.",
	"next_slot":               "The slot that follows.",
	"not_after":               "Send nothing after this instant.",
	"offer_code":              "The offer.",
	"opening_cents":           "What the wallet held when the ledger was opened.",
	"operation_id":            "The operation: the command's id, and its part.",
	"operations":              "The operations of the command.",
	"operations_total":        "How many operations there are.",
	"order_no":                "The provider's number of the order.",
	"plan":                    "The hash of the plan.",
	"previous_expires_at":     "The expiry that a renewal paid for.",
	"prev_hash":               "The hash of the row before it; 64 zeros in the first.",
	"priority":                "Which commands it passes, or lets pass.",
	"protocol":                "What it speaks, as the provider says.",
	"provider_cents":          "What the provider says that the wallet holds.",
	"proxies":                 "How many proxies.",
	"proxy_id":                "The provider's id of the proxy.",
	"proxy_ids":               "The provider's ids of the proxies.",
	"quantity":                "How many proxies.",
	"quiet":                   "Nothing was under way when the wallet was read.",
	"reason":                  "Why, for people; it may be reworded.",
	"refund_status":           "The state of the refund, as the provider says.",
	"refunded_at":             "When the money came back.",
	"region":                  "Where in the country its address is, as the provider says.",
	"reviews":                 "How often an operation of it waited for a person.",
	"reply_to":                "The inbox that gets the data of command.finished.",
	"stream_sequence":         "The sequence of the command's message in the commands stream.",
	"sandbox_scenario":        "What the provider's sandbox plays; on a sandbox account only.",
	"schedule":                "The name of the schedule.",
	"scope":                   "What is paused: the account, or one kind of operation.",
	"sent_at":                 "When it was signed.",
	"seq":                     "The row of the journal, from 1 without a gap; also the message's sequence in the stream.",
	"served_by":               "The slot that serves those that were missed.",
	"slot":                    "The planned firing.",
	"missed":                  "The slots that passed before it while no runner worked.",
	"slots":                   "The slots that passed.",
	"snapshot_hash":           "The hash over every projection behind the last row.",
	"amount_cents":            "The difference.",
	"state":                   "The state.",
	"status":                  "The status, as the provider says.",
	"suspense_cents":          "What was charged and waits for a person's answer.",
	"totals":                  "The running totals; not to be summed.",
	"traceparent":             "The W3C trace context that the command's message came with.",
	"tracestate":              "The vendors' part of the trace context.",
	"trace_id":                "The provider's trace of the request, for its support.",
	"unknown_price":           "How many of them have no known price.",
	"user":                    "The NATS user that asked, where the server proved one.",
	"version":                 "The program's version.",
	"wallet_cents":            "What the book says that the wallet holds.",
	"until":                   "Until when.",
	"settlement":              "The lines that are known.",
	"endings_without_renewal": "How many renewals in a row ended without renewing it.",
}

// describer gives each schema of a type the words and the bounds of its fields. With nulls
// a field may be null that Go writes so: a pointer, a list or a map that is left empty.
type describer struct {
	words map[string]string
	nulls bool
}

// typeName is a type as the tables name it: fact.Line.
func typeName(t reflect.Type) string { return t.String() }

// describe adds to the schema of a type what the tables say of it and of its fields.
func (d describer) describe(t reflect.Type, s *jsonschema.Schema) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if bound, ok := typeRules[typeName(t)]; ok {
		bound(s)
	}
	switch {
	case t.Kind() == reflect.Slice && s.Items != nil:
		d.describe(t.Elem(), s.Items)
	case t.Kind() == reflect.Map && s.AdditionalProperties != nil:
		d.describe(t.Elem(), s.AdditionalProperties)
	case t.Kind() == reflect.Struct && s.Properties != nil:
		d.fields(t, s)
	}
}

// fields describes the properties of a struct, those of structs within it too.
func (d describer) fields(t reflect.Type, s *jsonschema.Schema) {
	for f := range fieldsOf(t) {
		if f.Anonymous {
			d.fields(f.Type, s)
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		p, ok := s.Properties.Get(name)
		if !ok {
			continue
		}
		d.describe(f.Type, p)
		p.Description = d.ofField(t, f, name)
		for _, key := range []string{name, typeName(t) + "." + f.Name} {
			if bound, ok := fieldRules[key]; ok {
				bound(p)
			}
		}
		if d.nulls && mayBeNull(f) && p.Type != "" {
			orNull(p)
		}
	}
}

// mayBeNull says whether a field that is empty is written as null.
func mayBeNull(f reflect.StructField) bool {
	switch f.Type.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return !strings.Contains(f.Tag.Get("json"), ",omit")
	}
	return false
}

// fieldsOf are the fields of a struct, without those that have no JSON.
func fieldsOf(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for f := range t.Fields() {
			if (f.IsExported() || f.Anonymous) && !yield(f) {
				return
			}
		}
	}
}

// ofField is the comment on a field, else what fields of its name say, else the comment
// on its type.
func (d describer) ofField(t reflect.Type, f reflect.StructField, name string) string {
	if text := d.words[typeName(t)+"."+f.Name]; text != "" {
		return text
	}
	if text := commonWords[name]; text != "" {
		return text
	}
	of := f.Type
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	return cmp.Or(d.words[typeName(of)], verbWords[name])
}
