// The verbs of an account's service, in schemas and in the AsyncAPI document.

package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"

	"perennial/cmd/perennial/internal/daemon"
	"perennial/jobs"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/queue"
)

// verbText says what a verb does, which fields its request cannot do without, and which it
// takes and does not read, since several verbs share a type.
type verbText struct {
	text             string
	required, unread []string
}

var verbTexts = map[string]verbText{
	daemon.VerbStatus:         {"Show a command with its operations, by the id of either.", nil, []string{"by", "reason"}},
	daemon.VerbStates:         {"Say where commands stand, by id; ids that never came are left out.", []string{"ids"}, nil},
	daemon.VerbWait:           {"Answer what a command came to, as soon as it is over.", []string{"id"}, nil},
	daemon.VerbLines:          {"List the lines of a command's end, for commands with more than the event names.", []string{"id"}, nil},
	daemon.VerbList:           {"List operations.", nil, nil},
	daemon.VerbBalance:        {"Show the account's money as the ledger has it.", nil, nil},
	daemon.VerbShow:           {"Show the account: its provider, pauses, and how far it is published.", nil, nil},
	daemon.VerbRelease:        {"Let go what was held.", []string{"reason"}, nil},
	daemon.VerbCancel:         {"Withdraw what was never sent.", []string{"reason"}, nil},
	daemon.VerbRetry:          {"Ask again after not charged.", []string{"reason"}, nil},
	daemon.VerbResolve:        {"Answer for an operation in review, by id, operation_id or command_id.", []string{"charged", "reason"}, nil},
	daemon.VerbPause:          {"Stop sending.", []string{"reason"}, []string{"id", "command_id", "operation_id"}},
	daemon.VerbResume:         {"Send again.", []string{"reason"}, []string{"id", "command_id", "operation_id"}},
	daemon.VerbReconcile:      {"Compare the books with the provider; it may take minutes.", nil, nil},
	daemon.VerbRecord:         {"Book money that no reply showed: a top-up, what was spent outside Perennial, a charge or refund of an operation; or take a record back.", []string{"reason"}, nil},
	daemon.VerbEvidence:       {"Show what is known of an operation in review.", nil, []string{"by", "reason"}},
	daemon.VerbSweeps:         {"List the schedules.", nil, nil},
	daemon.VerbPlan:           {"Plan a sweep of a schedule, as it would be now.", []string{"schedule"}, []string{"plan", "by", "reason"}},
	daemon.VerbSweep:          {"Sweep now.", []string{"schedule", "reason"}, []string{"plan"}},
	daemon.VerbApprove:        {"Approve a plan that is held.", []string{"plan", "reason"}, []string{"schedule"}},
	daemon.VerbSchedulePause:  {"Fire no slot of a schedule until an instant, or until it is resumed.", []string{"schedule", "reason"}, nil},
	daemon.VerbScheduleResume: {"Fire the slots of a schedule again.", []string{"schedule", "reason"}, []string{"until"}},
	daemon.VerbForecast:       {"Forecast the renewals of days to come.", []string{"days"}, nil},
	daemon.VerbRetire:         {"Take proxies out of every sweep, or back in; all of them or none.", []string{"proxy_ids", "reason"}, nil},
	daemon.VerbProxies:        {"List the proxies that the ledger knows, in the order of their ids.", nil, nil},
	daemon.VerbReveal:         {"Note that a person reads a proxy's credentials; it answers none.", []string{"proxy_id", "reason"}, nil},
	daemon.VerbDeadRequeue:    {"Publish a dead command again, as it was, and remove its letter.", []string{"seq", "reason"}, nil},
	daemon.VerbDeadDrop:       {"Remove a dead command for good.", []string{"seq", "reason"}, nil},
	daemon.VerbOrder:          {"Carry out an order, and answer what it came to.", nil, nil},
	daemon.VerbRenew:          {"Carry out a renewal, and answer what it came to.", nil, nil},
}

// requestName and answerName are the names of a verb's schemas; a verb that carries out a
// command has those of the command.
func requestName(verb string) string {
	if isCommand(verb) {
		return verb
	}
	return "svc." + verb + ".request"
}

func answerName(verb string) string {
	if isCommand(verb) {
		return "inbox.finished"
	}
	return "svc." + verb + ".answer"
}

func isCommand(verb string) bool { return slices.Contains(queue.CommandVerbs, verb) }

// serviceSchemas are the schemas of what is neither a command nor an event: requests and
// answers of verbs, dead letters, and what comes to the inbox of a command.
func (d describer) serviceSchemas() map[string]any {
	all := map[string]any{
		"dead":           d.part("dead", "A dead letter.", reflect.TypeFor[queue.KeptLetter]()),
		"inbox.finished": d.part("inbox.finished", "What a command came to.", reflect.TypeFor[fact.CommandFinished]()),
		"inbox.refused":  d.part("inbox.refused", "Why a command is not carried out.", reflect.TypeFor[jobs.Refusal]()),
		"svc.error":      d.part("svc.error", "An error of the service.", reflect.TypeFor[queue.ErrorBody]()),
	}
	answers := describer{d.words, true}
	for verb, types := range daemon.VerbTypes() {
		if isCommand(verb) {
			continue
		}
		request := d.reflected(types.Request, knownFields)
		request.Required = verbTexts[verb].required
		for _, name := range verbTexts[verb].unread {
			request.Properties.Delete(name)
		}
		all[requestName(verb)] = named(request, requestName(verb), "What the verb "+verb+" takes: "+verbTexts[verb].text)
		all[answerName(verb)] = answers.part(answerName(verb), "What the verb "+verb+" answers.", types.Answer)
	}
	return all
}

// part is the schema of what Perennial sends: it may gain fields.
func (d describer) part(name, title string, t reflect.Type) *jsonschema.Schema {
	return named(d.reflected(t, moreFields), name, cmp.Or(d.words[typeName(t)], title))
}

func named(s *jsonschema.Schema, name, description string) *jsonschema.Schema {
	s.Version, s.ID, s.Title, s.Description = draft, jsonschema.ID(ledger.SchemaID(name)), "Perennial "+name, description
	return s
}

// addService: a verb is a request, whose answer comes to the inbox that it names.
func (d *api) addService() {
	d.inbox["svc_error"] = object{
		"name": "svc.error", "title": "The request is refused, or failed", "contentType": "application/json",
		"headers": headersOf("error"), "payload": d.payload("svc.error"), "examples": d.examples.of("svc.error"),
	}
	for _, verb := range slices.Sorted(maps.Keys(daemon.VerbTypes())) {
		d.addVerb(verb)
	}
}

func (d *api) addVerb(verb string) {
	name, answers, kind := requestName(verb), []string{"finished", "refused", "svc_error"}, "carryOut"
	message := object{"name": name, "title": "Request " + verb, "contentType": "application/json", "payload": d.payload(name), "examples": d.examples.of(name)}
	if isCommand(verb) {
		message["correlationId"] = object{"$ref": "#/components/correlationIds/command"}
	} else {
		kind, answers = "request", []string{"svc_" + verb + "_answer", "svc_error"}
		d.inbox[answers[0]] = object{
			"name": answerName(verb), "title": "Answer to " + verb, "contentType": "application/json",
			"headers": headersOf("answer"), "payload": d.payload(answerName(verb)), "examples": d.examples.of(answerName(verb)),
		}
	}
	message["headers"] = headersOf(kind)
	d.channel("receive", queue.ServiceSubject("{account}", verb), "service",
		"A verb of the NATS micro service perennial-{account}, for the roles "+rolesText(verb)+".", message, object{
			"summary":  verbTexts[verb].text,
			"bindings": object{"nats": object{"queue": queue.ServiceQueue, "bindingVersion": "0.1.0"}},
			"reply":    object{"channel": object{"$ref": "#/channels/inbox"}, "messages": inboxRefs(answers...)},
		})
}

func rolesText(verb string) string {
	roles := queue.RolesOf(verb)
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = string(r)
	}
	return strings.Join(names, ", ")
}

// verbMetadata is what $SRV.INFO shows of each verb, under the names that NATS's own
// examples use: its schemas, whole, with no newline in them.
func verbMetadata() (map[string]map[string]string, error) {
	words, err := readSchemaWords()
	if err != nil {
		return nil, err
	}
	all, texts := describer{words: words}.verbSchemas(), map[string]string{}
	text := func(name string) error {
		if _, ok := texts[name]; ok {
			return nil
		}
		line, err := schemaText(all.named(name), "")
		if err != nil {
			return fmt.Errorf("schema of %s: %w", name, err)
		}
		texts[name] = strings.TrimSuffix(string(line), "\n")
		return nil
	}
	metadata := map[string]map[string]string{}
	for verb := range daemon.VerbTypes() {
		if err := errors.Join(text(requestName(verb)), text(answerName(verb))); err != nil {
			return nil, err
		}
		metadata[verb] = map[string]string{
			"description": verbTexts[verb].text, "format": "application/json", "roles": rolesText(verb),
			"request_schema": texts[requestName(verb)], "response_schema": texts[answerName(verb)],
		}
	}
	return metadata, nil
}
