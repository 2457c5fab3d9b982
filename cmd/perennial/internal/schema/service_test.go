// The verbs of an account's service, in schemas and in the AsyncAPI document.

package schema

import (
	"cmp"
	"reflect"

	"github.com/invopop/jsonschema"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs"
	"perennial/ledger/chain"
	"perennial/ledger/fact"
	"perennial/queue"
	"perennial/queue/letters"
	"perennial/queue/service"
)

// serviceSchemas returns the schemas of everything but commands and events: requests and answers of
// verbs, dead letters, and the messages at a command's inbox.
func (d describer) serviceSchemas() map[string]any {
	all := map[string]any{
		"dead":           d.part("dead", "A dead letter.", reflect.TypeFor[letters.Kept]()),
		"inbox.finished": d.part("inbox.finished", "What a command came to.", reflect.TypeFor[fact.CommandFinished]()),
		"inbox.refused":  d.part("inbox.refused", "Why a command is not carried out.", reflect.TypeFor[jobs.Refusal]()),
		"svc.error":      d.part("svc.error", "An error of the service.", reflect.TypeFor[service.ErrorBody]()),
	}
	answers := describer{d.words, true}
	for _, v := range verbs.All() {
		if v.IsCommand() {
			continue
		}
		request := d.reflected(v.Request, knownFields)
		request.Required = v.Required
		for _, name := range v.Unread {
			request.Properties.Delete(name)
		}
		all[requestName(v)] = named(request, requestName(v), "What the verb "+v.Name+" takes: "+v.Help)
		all[answerName(v)] = answers.part(answerName(v), "What the verb "+v.Name+" answers.", v.Answer)
	}
	return all
}

// part returns the schema of a message that Perennial sends, which may gain fields.
func (d describer) part(name, title string, t reflect.Type) *jsonschema.Schema {
	return named(d.reflected(t, moreFields), name, cmp.Or(d.words[typeName(t)], title))
}

func named(s *jsonschema.Schema, name, description string) *jsonschema.Schema {
	s.Version, s.ID, s.Title, s.Description = draft, jsonschema.ID(chain.SchemaID(name)), "Perennial "+name, description
	return s
}

// addService adds each verb as a request whose answer goes to the request's inbox.
func (d *api) addService() {
	d.inbox["svc_error"] = object{
		"name": "svc.error", "title": "The request is refused, or failed", "contentType": "application/json",
		"headers": headersOf("error"), "payload": d.payload("svc.error"), "examples": d.examples.of("svc.error"),
	}
	for _, v := range verbs.All() {
		d.addVerb(v)
	}
}

func (d *api) addVerb(v verbs.Spec) {
	name, answers, kind := requestName(v), []string{"finished", "refused", "svc_error"}, "carryOut"
	message := object{"name": name, "title": "Request " + v.Name, "contentType": "application/json", "payload": d.payload(name), "examples": d.examples.of(name)}
	if v.IsCommand() {
		message["correlationId"] = object{"$ref": "#/components/correlationIds/command"}
	} else {
		kind, answers = "request", []string{"svc_" + v.Name + "_answer", "svc_error"}
		d.inbox[answers[0]] = object{
			"name": answerName(v), "title": "Answer to " + v.Name, "contentType": "application/json",
			"headers": headersOf("answer"), "payload": d.payload(answerName(v)), "examples": d.examples.of(answerName(v)),
		}
	}
	message["headers"] = headersOf(kind)
	d.channel("receive", queue.ServiceSubject("{account}", v.Name), "service",
		"A verb of the NATS micro service perennial-{account}, for the roles "+rolesText(v)+".", message, object{
			"summary":  v.Help,
			"bindings": object{"nats": object{"queue": service.ServiceQueue, "bindingVersion": "0.1.0"}},
			"reply":    object{"channel": object{"$ref": "#/channels/inbox"}, "messages": inboxRefs(answers...)},
		})
}
