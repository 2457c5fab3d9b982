// The AsyncAPI 3.1 document: who may send what to which subject, and what the answers are.

package schema

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"

	"perennial/cmd/perennial/internal/config"
	"perennial/ledger/fact"
	"perennial/queue"
)

// api builds an AsyncAPI document. If inFile returns true for a schema, payloads refer to its file
// beside the document, and otherwise to the document's components.
type api struct {
	all                  schemas
	examples             examples
	inFile               func(name string) bool
	channels, operations object
	inbox                object // messages of the channel for answers
}

// document renders the AsyncAPI document. inFile reports whether a schema has its own file.
func (all schemas) document(t *testing.T, inFile func(name string) bool) []byte {
	t.Helper()
	d := &api{all: all, examples: readExamples(t), inFile: inFile, channels: object{}, operations: object{}, inbox: object{}}
	d.addCommands()
	d.addEvents()
	d.addDead()
	d.addService()
	d.channels["inbox"] = object{
		"address":  nil,
		"title":    "The inbox of a client",
		"messages": d.inbox,
		"description": "A subject of the client's own, as NATS clients make them (`_INBOX.…`): the reply subject of a request, or what the header " +
			queue.HeaderReplyTo + " of a command names. What is sent there is not kept.",
	}
	return schemaText(t, object{
		"asyncapi": "3.1.0", "info": apiInfo(), "defaultContentType": "application/json",
		"servers": object{"nats": apiServer()}, "channels": d.channels, "operations": d.operations, "components": d.components(t),
	})
}

func apiInfo() object {
	return object{
		"title": "Perennial", "version": config.Version,
		"description": "Perennial takes commands for proxies from NATS JetStream, carries each out once in effect at the provider, and publishes every fact " +
			"as a CloudEvent. This document is written from Perennial's side: it receives commands and requests, and sends events and answers. " +
			"docs/events/README.md is the page for programs that consume events.",
		"license": object{"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
		"contact": object{"name": "The maintainers of Perennial, through the repository"},
	}
}

// apiServer is the embedded NATS server at its default address.
func apiServer() object {
	return object{
		"host": "{host}:{port}", "protocol": "nats", "title": "NATS with JetStream",
		"description": "The embedded server (`nats.listen`), or any NATS server from 2.12 on that `nats.url` names. Without `nats.users` the embedded " +
			"server has no login. With them, each user has the subjects that its roles give for its accounts: producer, subscriber, viewer, operator.",
		"variables": object{
			"host": object{"default": "127.0.0.1", "description": "Where the server listens."},
			"port": object{"default": "4222", "description": "The port for clients."},
		},
		"security": []object{{"$ref": "#/components/securitySchemes/user"}},
	}
}

func (d *api) components(t *testing.T) object {
	t.Helper()
	parts := object{"unprintable": commandDefs()["unprintable"]}
	for _, schemas := range []map[string]any{d.all.parts, d.all.kept} {
		for name, schema := range schemas {
			if !d.inFile(name) {
				parts[name] = embedded(t, schema)
			}
		}
	}
	maps.Copy(parts, headerSchemas())
	return object{
		"schemas":         parts,
		"securitySchemes": object{"user": object{"type": "userPassword", "description": "A user of the NATS server. Servers whose accounts are JWTs take a credentials file instead."}},
		"parameters":      object{"account": object{"description": "The short name of the account: 1 to 32 of a-z, 0-9 and the hyphen.", "examples": []string{"main"}}},
		"correlationIds": object{
			"command": object{"description": "The command's id, which its producer chose.", "location": "$message.payload#/id"},
			"event":   object{"description": "The id of the command that the fact is about.", "location": "$message.payload#/data/command_id"},
			"answer":  object{"description": "The command's id.", "location": "$message.payload#/command_id"},
		},
	}
}

// embedded returns a schema as a part of the document. It has no $id, which would become the base
// of its references.
func embedded(t *testing.T, schema any) any {
	t.Helper()
	switch s := schema.(type) {
	case object:
		s = maps.Clone(s)
		delete(s, "$schema")
		delete(s, "$id")
		return s
	case *jsonschema.Schema:
		own := *s
		own.Version, own.ID, own.Definitions = "", "", nil
		return json.RawMessage(bytes.ReplaceAll(schemaText(t, &own), []byte(`"#/$defs/`), []byte(`"#/components/schemas/`)))
	}
	return schema
}

// payload refers to a schema with its draft, because AsyncAPI's default is an older draft.
func (d *api) payload(name string) object {
	at := "#/components/schemas/" + name
	if d.inFile(name) {
		at = "./" + name + ".json"
	}
	return object{"schemaFormat": "application/schema+json;version=draft-2020-12", "schema": object{"$ref": at}}
}

// channel adds a subject of an account, and Perennial's action on it.
func (d *api) channel(action, address, tag, description string, message, operation object) {
	_, rest, found := strings.Cut(address, ".{account}.")
	if !found {
		rest = "dead"
	} else if strings.HasPrefix(address, "perennial.svc.") {
		rest = "svc." + rest
	}
	key := strings.ReplaceAll(rest, ".", "_")
	d.channels[key] = object{
		"address": address, "description": description,
		"servers":    []object{{"$ref": "#/servers/nats"}},
		"parameters": object{"account": object{"$ref": "#/components/parameters/account"}},
		"messages":   object{key: message},
	}
	operation["action"], operation["channel"], operation["tags"] = action, object{"$ref": "#/channels/" + key}, []object{{"name": tag}}
	d.operations[action+"_"+key] = operation
}

// lineTexts describes each priority's subject.
var lineTexts = map[queue.Priority]string{
	queue.PriorityHigh:   "Urgent commands: they pass all others.",
	queue.PriorityNormal: "Commands of no particular urgency; `priority` in the command counts for more than the subject.",
	queue.PriorityBulk:   "Commands that let others pass, as those of sweeps and of `perennial submit`.",
}

// addCommands adds a channel for each command and priority.
func (d *api) addCommands() {
	d.inbox["finished"] = object{
		"name": "inbox.finished", "title": "What the command came to", "contentType": "application/json", "payload": d.payload("inbox.finished"),
		"correlationId": object{"$ref": "#/components/correlationIds/answer"}, "examples": d.examples.of("inbox.finished"),
		"summary": "The data of the command's command.finished, with each end of it.",
	}
	d.inbox["refused"] = object{
		"name": "inbox.refused", "title": "The command is not carried out", "contentType": "application/json", "payload": d.payload("inbox.refused"),
		"examples": d.examples.of("inbox.refused"), "summary": "There is no command.finished for what was published.",
	}
	for _, line := range queue.Lines() {
		name := string(line.Kind)
		message := object{
			"name": name, "title": "Command " + name, "contentType": "application/json", "headers": headersOf("command"), "payload": d.payload(name),
			"correlationId": object{"$ref": "#/components/correlationIds/command"}, "examples": d.examples.of(name),
		}
		d.channel("receive", line.Subject("{account}"), "commands", lineTexts[line.Priority]+
			" A subject of the stream PERENNIAL_COMMANDS_{account}: published as a request, it is answered by JetStream when it is on disk.", message, object{
			"summary": "Carry out a command, once in effect for its id.",
			"reply": object{
				"address":  object{"description": "Optional: the inbox that gets what the command came to.", "location": "$message.header#/" + queue.HeaderReplyTo},
				"channel":  object{"$ref": "#/channels/inbox"},
				"messages": inboxRefs("finished", "refused"),
			},
		})
	}
}

func (d *api) addEvents() {
	for _, name := range slices.Sorted(maps.Keys(fact.Types())) {
		schema, _ := d.all.kept[name].(object)
		summary, _ := schema["description"].(string)
		message := object{
			"name": name, "title": "Event " + name, "summary": summary, "contentType": "application/cloudevents+json",
			"headers": headersOf("event"), "payload": d.payload(name), "examples": d.examples.of(name),
		}
		if _, ok := reflect.TypeOf(fact.Types()[name]).FieldByName("CommandID"); ok {
			message["correlationId"] = object{"$ref": "#/components/correlationIds/event"}
		}
		d.channel("send", queue.EventSubject("{account}", name), "events",
			"A subject of the stream PERENNIAL_EVENTS_{account}, which keeps every event in the journal's order.", message, object{"summary": summary})
	}
}

func (d *api) addDead() {
	message := object{
		"name": "dead", "title": "Dead letter", "contentType": "application/json", "headers": headersOf("dead"), "payload": d.payload("dead"), "examples": d.examples.of("dead"),
	}
	d.channel("send", queue.DeadSubject("{account}"), "dead letters",
		"A subject of the stream PERENNIAL_DEAD_{account}, which keeps the letters until an operator drops them or publishes them again.", message,
		object{"summary": "Put away a command that cannot be read, or whose id was refused with too many other contents."})
}

func inboxRefs(messages ...string) (refs []object) {
	for _, m := range messages {
		refs = append(refs, object{"$ref": "#/channels/inbox/messages/" + m})
	}
	return refs
}
