// Package verbs declares the service requests of an account's NATS service, on the subjects
// perennial.svc.<account>.<verb>. Each declaration has the name, request type, response
// type, permitted roles, help and example.
//
// Everything else is derived from these declarations: the endpoints with their metadata, the
// permissions of roles, the schemas and the AsyncAPI document, the requests of the CLI and the
// web UI, and the table in docs/cli.md. To add a service request, declare it here and add its
// handler in package daemon.
package verbs

import (
	"reflect"
	"slices"

	"perennial/jobs/command"
	"perennial/jobs/desk"
	"perennial/jobs/inspect"
	"perennial/jobs/reconcile"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
	"perennial/queue"
	"perennial/queue/service"
	"perennial/schedules"
	"perennial/schedules/plans"
)

// Spec declares a service request.
type Spec struct {
	service.Verb

	Help     string   // description in one sentence
	Required []string // names of required request fields
	Unread   []string // names of request fields that the handler ignores

	Example       string // example of a request, as JSON
	AnswerExample string // "" if the response is long, or is an event

	Request, Answer reflect.Type // the types Q and A of [Verb]
}

// Verb is a declared service request with its request type Q and response type A.
type Verb[Q, A any] struct{ Spec }

var all []Spec

func declare[Q, A any](s Spec) Verb[Q, A] {
	s.Request, s.Answer = reflect.TypeFor[Q](), reflect.TypeFor[A]()
	if s.AnswerExample == "" && s.Answer == reflect.TypeFor[Changed]() {
		s.AnswerExample = `{"changed":1}`
	}
	all = append(all, s)
	return Verb[Q, A]{s}
}

// All returns all declared service requests.
func All() []Spec { return slices.Clone(all) }

// Served returns all declarations in the form that package service uses.
func Served() []service.Verb {
	served := make([]service.Verb, len(all))
	for i, v := range all {
		served[i] = v.Verb
	}
	return served
}

// IsCommand reports whether the service request carries out a command. If so, the body of the
// request is the command.
func (s Spec) IsCommand() bool { return queue.ValidKind(queue.Kind(s.Name)) == nil }

// The roles that may make a service request. If only operators may make it, the request
// changes something.
var (
	forProducers = []queue.Role{queue.RoleProducer}
	forAskers    = []queue.Role{queue.RoleProducer, queue.RoleViewer, queue.RoleOperator}
	forReaders   = []queue.Role{queue.RoleViewer, queue.RoleOperator}
	forOperators = []queue.Role{queue.RoleOperator}
)

// The service requests.
var (
	Status = declare[OperatorRequest, inspect.CommandStatus](Spec{
		Verb: service.Verb{Name: "status", Roles: forAskers}, Help: "Show a command with its operations, by the id of the command or of an operation.",
		Unread: []string{"by", "reason"}, Example: `{"id":"restock-7"}`,
	})
	States = declare[StatesRequest, map[string]string](Spec{
		Verb: service.Verb{Name: "states", Roles: forAskers}, Help: "Show the states of commands, by id; the answer omits unknown ids.",
		Required: []string{"ids"}, Example: `{"ids":["restock-7","keep-7"]}`, AnswerExample: `{"restock-7":"delivered","keep-7":"sending"}`,
	})
	Wait = declare[WaitRequest, WaitAnswer](Spec{
		Verb: service.Verb{Name: "wait", Roles: forAskers, Pace: service.Parked}, Help: "Wait until a command has ended, and answer with its result.",
		Required: []string{"id"}, Example: `{"id":"restock-7","timeout_seconds":60}`,
	})
	Lines = declare[LinesRequest, tables.FinishedPage](Spec{
		Verb: service.Verb{Name: "lines", Roles: forAskers}, Help: "List the result lines of a finished command whose event cannot hold all of them.",
		Required: []string{"id"}, Example: `{"id":"restock-7","after":200,"limit":1000}`,
	})
	List = declare[ListRequest, []inspect.OperationStatus](Spec{
		Verb: service.Verb{Name: "list", Roles: forReaders}, Help: "List operations.",
		Example: `{"limit":100,"state":"review","kind":"renewal"}`,
	})
	Balance = declare[struct{}, tables.Balance](Spec{
		Verb: service.Verb{Name: "balance", Roles: forReaders}, Help: "Show the account's balance in the ledger.",
		Example: `{}`, AnswerExample: `{"account":"main","currency":"USD","wallet_cents":94300,"charged_cents":6000,"refunded_cents":1000,"suspense_cents":0,"funding_cents":100000,"external_cents":700,"head":{"seq":7,"hash":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}}`,
	})
	Release = declare[OperatorRequest, Changed](Spec{
		Verb: service.Verb{Name: "release", Roles: forOperators}, Help: "Release a command that is on hold.",
		Required: []string{"reason"}, Example: `{"id":"restock-7","by":"ada","reason":"agreed"}`,
	})
	Cancel = declare[OperatorRequest, Changed](Spec{
		Verb: service.Verb{Name: "cancel", Roles: forOperators}, Help: "Cancel a command whose operations were never sent.",
		Required: []string{"reason"}, Example: `{"id":"restock-7","by":"ada","reason":"not needed"}`,
	})
	Retry = declare[RetryRequest, Changed](Spec{
		Verb: service.Verb{Name: "retry", Roles: forOperators}, Help: "Retry a command that failed without a charge.",
		Required: []string{"reason"}, Example: `{"id":"restock-7","by":"ada","reason":"the wallet was filled"}`,
	})
	Resolve = declare[desk.Resolution, Changed](Spec{
		Verb: service.Verb{Name: "resolve", Roles: forOperators, Pace: service.Slow}, Help: "Answer the review of an operation, by id, operation_id or command_id.",
		Required: []string{"charged", "reason"}, Example: `{"id":"keep-7/0001","line":"px_1","charged":true,"charged_cents":300,"by":"ada","reason":"the statement has it"}`,
	})
	Pause = declare[OperatorRequest, Changed](Spec{
		Verb: service.Verb{Name: "pause", Roles: forOperators}, Help: "Pause the account: no request is sent to the provider.",
		Required: []string{"reason"}, Unread: []string{"id", "command_id", "operation_id"}, Example: `{"by":"ada","reason":"the provider works on it"}`,
	})
	Resume = declare[ResumeRequest, Changed](Spec{
		Verb: service.Verb{Name: "resume", Roles: forOperators}, Help: "Resume the account.",
		Required: []string{"reason"}, Unread: []string{"id", "command_id", "operation_id"}, Example: `{"by":"ada","reason":"it is done"}`,
	})
	Show = declare[struct{}, AccountView](Spec{
		Verb: service.Verb{Name: "show", Roles: forReaders}, Help: "Show the account: its provider, its pauses, and how far its events are published.",
		Example: `{}`,
	})
	AtAGlance = declare[SummaryRequest, Summary](Spec{
		Verb: service.Verb{Name: "summary", Roles: forReaders}, Help: "Show whether the account is ready, what needs attention, what expires and how long the wallet lasts.",
		Example: `{}`,
	})
	Sweeps = declare[struct{}, []schedules.Status](Spec{
		Verb: service.Verb{Name: "sweeps", Roles: forReaders}, Help: "List the schedules.",
		Example: `{}`,
	})
	Plan = declare[SweepRequest, plans.Plan](Spec{
		Verb: service.Verb{Name: "plan", Roles: forReaders, Pace: service.Slow}, Help: "Preview a run of a schedule made now; with plan, show a plan that needs approval.",
		Unread: []string{"by", "reason"}, Example: `{"schedule":"keepalive"}`,
	})
	Sweep = declare[SweepRequest, plans.Plan](Spec{
		Verb: service.Verb{Name: "sweep", Roles: forOperators, Pace: service.Slow}, Help: "Run a schedule now.",
		Required: []string{"schedule", "reason"}, Unread: []string{"plan"}, Example: `{"schedule":"keepalive","by":"ada","reason":"before the holidays"}`,
	})
	Approve = declare[SweepRequest, Changed](Spec{
		Verb: service.Verb{Name: "approve", Roles: forOperators}, Help: "Approve a plan that needs approval.",
		Required: []string{"plan", "reason"}, Unread: []string{"schedule"}, Example: `{"plan":"9f86d081884c7d65","by":"ada","reason":"agreed"}`,
	})
	Decline = declare[SweepRequest, Changed](Spec{
		Verb: service.Verb{Name: "decline", Roles: forOperators}, Help: "Decline a plan that needs approval: no proxy in it is renewed.",
		Required: []string{"plan", "reason"}, Unread: []string{"schedule"}, Example: `{"plan":"9f86d081884c7d65","by":"ada","reason":"too expensive"}`,
	})
	Retire = declare[RetireRequest, Changed](Spec{
		Verb: service.Verb{Name: "retire", Roles: forOperators}, Help: "Take proxies out of every schedule, or return them; the request changes all its proxies or none.",
		Required: []string{"proxy_ids", "reason"}, Example: `{"proxy_ids":["px_1"],"by":"ada","reason":"not needed"}`,
	})
	Proxies = declare[ProxiesRequest, ProxiesAnswer](Spec{
		Verb: service.Verb{Name: "proxies", Roles: forReaders}, Help: "List the proxies in the ledger, ordered by id.",
		Example: `{"after":"px_7","limit":1000}`,
	})
	Proxy = declare[ProxyRequest, ProxyAnswer](Spec{
		Verb: service.Verb{Name: "proxy", Roles: forReaders, Pace: service.Slow}, Help: "Show whether a schedule will renew a proxy, why not, and what renewed it last.",
		Required: []string{"proxy_id"}, Example: `{"proxy_id":"px_1"}`,
	})
	Forecast = declare[ForecastRequest, schedules.Forecast](Spec{
		Verb: service.Verb{Name: "forecast", Roles: forReaders, Pace: service.Slow}, Help: "Forecast the renewals of the next days.",
		Required: []string{"days"}, Example: `{"days":30}`,
	})
	SchedulePause = declare[SchedulePauseRequest, Changed](Spec{
		Verb: service.Verb{Name: "schedule-pause", Roles: forOperators}, Help: "Pause a schedule until a given time, or until it is resumed.",
		Required: []string{"schedule", "reason"}, Example: `{"schedule":"keepalive","until":"2026-11-21T20:00:00Z","by":"ada","reason":"prices change tonight"}`,
	})
	ScheduleResume = declare[SchedulePauseRequest, Changed](Spec{
		Verb: service.Verb{Name: "schedule-resume", Roles: forOperators}, Help: "Resume a schedule.",
		Required: []string{"schedule", "reason"}, Unread: []string{"until"}, Example: `{"schedule":"keepalive","by":"ada","reason":"the prices are known"}`,
	})
	Reveal = declare[RevealRequest, Changed](Spec{
		Verb: service.Verb{Name: "reveal", Roles: forOperators}, Help: "Record that a person reads a proxy's credentials; the answer does not contain the credentials.",
		Required: []string{"proxy_id", "reason"}, Example: `{"proxy_id":"px_1","by":"ada","reason":"a customer cannot connect"}`,
	})
	DeadRequeue = declare[DeadRequest, Changed](Spec{
		Verb: service.Verb{Name: "dead-requeue", Roles: forOperators}, Help: "Republish a dead letter unchanged and delete it; with content_hash, record that a corrected command was published instead.",
		Required: []string{"seq", "reason"}, Example: `{"seq":7,"by":"ada","reason":"the program reads it now"}`,
	})
	DeadDrop = declare[DeadRequest, Changed](Spec{
		Verb: service.Verb{Name: "dead-drop", Roles: forOperators}, Help: "Delete a dead letter.",
		Required: []string{"seq", "reason"}, Unread: []string{"content_hash"}, Example: `{"seq":8,"by":"ada","reason":"a test of a producer's"}`,
	})
	Reconcile = declare[struct{}, reconcile.Reconciliation](Spec{
		Verb: service.Verb{Name: "reconcile", Roles: forOperators, Pace: service.Slow}, Help: "Compare the books with the provider; the comparison may take minutes.",
		Example: `{}`,
	})
	Record = declare[desk.Recording, Changed](Spec{
		Verb: service.Verb{Name: "record", Roles: forOperators}, Help: "Book a payment that the provider did not report: a top-up, spending outside Perennial, or a charge or refund of an operation. Or reverse an earlier record.",
		Required: []string{"reason"}, Example: `{"kind":"top-up","cents":5000,"id":"card-7","by":"ada","reason":"card"}`, AnswerExample: `{"changed":1,"currency":"USD"}`,
	})
	Evidence = declare[OperatorRequest, inspect.Evidence](Spec{
		Verb: service.Verb{Name: "evidence", Roles: forReaders, Pace: service.Slow}, Help: "Show the evidence of an operation in review.",
		Unread: []string{"by", "reason"}, Example: `{"id":"keep-7/0001"}`,
	})
	Order = declare[command.OrderCommand, fact.CommandFinished](Spec{
		Verb: service.Verb{Name: string(queue.KindOrderCreate), Roles: forProducers, Pace: service.Parked}, Help: "Carry out an order and answer with its result.",
		Example: `{"id":"restock-7","duration_days":30,"items":[{"offer_code":"off_us_1","quantity":2}],"max_total_cents":1000,"labels":{"ticket":"OPS-7"}}`,
	})
	Renew = declare[command.RenewalCommand, fact.CommandFinished](Spec{
		Verb: service.Verb{Name: string(queue.KindProxyRenew), Roles: forProducers, Pace: service.Parked}, Help: "Carry out a renewal and answer with its result.",
		Example: `{"id":"keep-7","duration_days":30,"proxy_ids":["px_1","px_2"],"due_before":"2026-11-25T00:00:00Z","labels":{"ticket":"OPS-7"}}`,
	})
)
