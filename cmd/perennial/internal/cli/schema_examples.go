// The examples of the AsyncAPI document: events of a real journal, and the commands and
// requests that belong to them.

package cli

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"

	"perennial/cmd/perennial/internal/daemon"
)

// exampleEvents has an event of each type, one a line, from a journal that the tests of
// the ledger write.
//
//go:embed schema_examples.jsonl
var exampleEvents []byte

// examples are payloads by the name of their schema.
type examples map[string]json.RawMessage

// of are the examples of a schema, as a message lists them.
func (x examples) of(name string) []object {
	if x[name] == nil {
		return []object{}
	}
	return []object{{"name": strings.ReplaceAll(name, ".", "_"), "payload": x[name]}}
}

func readExamples() (examples, error) {
	all := examples{}
	for name, text := range exampleTexts {
		all[name] = json.RawMessage(text)
	}
	for line := range bytes.Lines(exampleEvents) {
		var event struct {
			Type string                     `json:"type"`
			Data map[string]json.RawMessage `json:"data"`
		}
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, fmt.Errorf("examples of events: %w", err)
		}
		name := strings.TrimSuffix(strings.TrimPrefix(event.Type, "perennial."), ".v1")
		all[name] = bytes.TrimSpace(line)
		if name != "command.finished" {
			continue
		}
		delete(event.Data, "ledger")
		data, err := json.Marshal(event.Data)
		if err != nil {
			return nil, fmt.Errorf("examples of events: %w", err)
		}
		all["inbox.finished"] = data
		all[answerName(daemon.VerbWait)] = fmt.Appendf(nil, `{"finished":true,"result":%s}`, data)
	}
	return all, nil
}

const exampleChanged = `{"changed":1}`

// exampleTexts are the examples that are no events. Tests hold them against their schemas.
var exampleTexts = map[string]string{
	"order.create":  `{"id":"restock-7","duration_days":30,"items":[{"offer_code":"off_us_1","quantity":2}],"max_total_cents":1000,"labels":{"ticket":"OPS-7"}}`,
	"proxy.renew":   `{"id":"keep-7","duration_days":30,"proxy_ids":["px_1","px_2"],"due_before":"2026-11-25T00:00:00Z","labels":{"ticket":"OPS-7"}}`,
	"dead":          `{"reason":"not a JSON object","subject":"perennial.commands.main.order.create","data":"restock","stream_sequence":7,"published_at":"2026-11-21T12:00:00Z"}`,
	"inbox.refused": `{"error":"unreadable","reason":"not a JSON object"}`,
	"svc.error":     `{"code":"not_found","description":"there is no command or operation of that id"}`,

	"svc.status.request":          `{"id":"restock-7"}`,
	"svc.states.request":          `{"ids":["restock-7","keep-7"]}`,
	"svc.states.answer":           `{"restock-7":"delivered","keep-7":"sending"}`,
	"svc.wait.request":            `{"id":"restock-7","timeout_seconds":60}`,
	"svc.proxies.request":         `{"after":"px_7","limit":1000}`,
	"svc.lines.request":           `{"id":"restock-7","after":200,"limit":1000}`,
	"svc.list.request":            `{"limit":100,"state":"review","kind":"renewal"}`,
	"svc.balance.request":         `{}`,
	"svc.balance.answer":          `{"account":"main","currency":"USD","wallet_cents":94300,"charged_cents":6000,"refunded_cents":1000,"suspense_cents":0,"funding_cents":100000,"external_cents":700,"head":{"seq":7,"hash":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}}`,
	"svc.show.request":            `{}`,
	"svc.release.request":         `{"id":"restock-7","by":"ada","reason":"agreed"}`,
	"svc.release.answer":          exampleChanged,
	"svc.cancel.request":          `{"id":"restock-7","by":"ada","reason":"not needed"}`,
	"svc.cancel.answer":           exampleChanged,
	"svc.retry.request":           `{"id":"restock-7","by":"ada","reason":"the wallet was filled"}`,
	"svc.retry.answer":            exampleChanged,
	"svc.resolve.request":         `{"id":"keep-7/0001","line":"px_1","charged":true,"charged_cents":300,"by":"ada","reason":"the statement has it"}`,
	"svc.resolve.answer":          exampleChanged,
	"svc.pause.request":           `{"by":"ada","reason":"the provider works on it"}`,
	"svc.pause.answer":            exampleChanged,
	"svc.resume.request":          `{"by":"ada","reason":"it is done"}`,
	"svc.resume.answer":           exampleChanged,
	"svc.reconcile.request":       `{}`,
	"svc.record.request":          `{"kind":"top-up","cents":5000,"id":"card-7","by":"ada","reason":"card"}`,
	"svc.record.answer":           `{"changed":1,"currency":"USD"}`,
	"svc.evidence.request":        `{"id":"keep-7/0001"}`,
	"svc.sweeps.request":          `{}`,
	"svc.plan.request":            `{"schedule":"keepalive"}`,
	"svc.sweep.request":           `{"schedule":"keepalive","by":"ada","reason":"before the holidays"}`,
	"svc.approve.request":         `{"plan":"9f86d081884c7d65","by":"ada","reason":"agreed"}`,
	"svc.approve.answer":          exampleChanged,
	"svc.forecast.request":        `{"days":30}`,
	"svc.schedule-pause.request":  `{"schedule":"keepalive","until":"2026-11-21T20:00:00Z","by":"ada","reason":"prices change tonight"}`,
	"svc.schedule-pause.answer":   exampleChanged,
	"svc.schedule-resume.request": `{"schedule":"keepalive","by":"ada","reason":"the prices are known"}`,
	"svc.schedule-resume.answer":  exampleChanged,
	"svc.retire.request":          `{"proxy_ids":["px_1"],"by":"ada","reason":"not needed"}`,
	"svc.retire.answer":           exampleChanged,
	"svc.reveal.request":          `{"proxy_id":"px_1","by":"ada","reason":"a customer cannot connect"}`,
	"svc.reveal.answer":           exampleChanged,
	"svc.dead-requeue.request":    `{"seq":7,"by":"ada","reason":"the program reads it now"}`,
	"svc.dead-requeue.answer":     exampleChanged,
	"svc.dead-drop.request":       `{"seq":8,"by":"ada","reason":"a test of a producer's"}`,
	"svc.dead-drop.answer":        exampleChanged,
}
