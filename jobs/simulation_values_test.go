package jobs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"perennial/ledger/fact"
	"perennial/ledger/testrun"
	"perennial/upstream"
	"perennial/upstream/sandbox"
)

var updateValues = flag.Bool("values.update", false, "write what each wrong value does into testdata/traps/README.md")

var valuesTail = flag.Int("values.tail", 20, "how many lines of the trace to print of a value that failed")

// wrongValues are JSON texts that replace a member's value. Two are not values: the member is
// missing, or appears twice.
var wrongValues = []wrongValue{
	{"absent", ""}, {"twice", ""}, {"null", `null`}, {"empty", `""`}, {"text", `"some text"`}, {"huge text", `"` + strings.Repeat("x", 20_000) + `"`},
	{"escaped", `"\u0000\u001b\u2028"`}, {"not UTF-8", "\"\xff\xfe\""}, {"NaN", `"NaN"`}, {"0", `0`}, {"-1", `-1`}, {"1.5", `1.5`}, {"huge", `9223372036854775807`},
	{"over 64 bits", `9223372036854775808`}, {"1e400", `1e400`}, {"true", `true`}, {"list", `[]`}, {"object", `{}`}, {"zero date", `"0000-00-00 00:00:00"`},
	{"no zone", `"2026-12-21 12:00:00"`}, {"other zone", `"2026-12-21T12:00:00+14:00"`},
}

type wrongValue struct{ name, text string }

// spoilt is a member of one entity's replies that permanently has a wrong value, or a reply
// that another reply permanently replaces.
type spoilt struct {
	kind  string // of reply
	path  string // of the member, such as data.proxies.*.expires_at; wholeReply
	value string // the name of one of wrongValues, or of otherReplies
}

func (x spoilt) String() string { return fmt.Sprintf("%s %s: %s", x.kind, x.path, x.value) }

// wholeReply is the path that stands for a replaced reply.
const wholeReply = "(reply)"

// otherReplies are the bodies that replace a reply, with their HTTP status, without executing
// the request: each code of the API document, an unknown code, and none.
var otherReplies = func() map[string]otherReply {
	all := map[string]otherReply{
		"HTTP 500": {500, "<h1>error</h1>"}, "HTTP 404 without an envelope": {404, "not found"}, "HTTP 403 of a firewall": {403, "<h1>blocked</h1>"}, "an empty body": {200, ""},
	}
	for _, code := range append(upstream.Codes(), "of_tomorrow") {
		if code != upstream.CodeOK && !slices.Contains(ofTheAccount, code) {
			all[string(code)] = otherReply{400, fmt.Sprintf(`{"success":false,"code":%q,"message":"no","data":null,"trace_id":"tr_1","timestamp":"2026-04-05T01:00:00Z"}`, code)}
		}
	}
	return all
}()

type otherReply struct {
	status int
	body   string
}

// ofTheAccount are codes that concern the account rather than one entity. The account waits
// until they end.
var ofTheAccount = []upstream.Code{
	upstream.CodeAPIKeyRevoked, upstream.CodeIdempotencyKeyRequired, upstream.CodeInsufficientScope, upstream.CodeInvalidSignature, upstream.CodeRateLimited,
	upstream.CodeStaleTimestamp,
}

// entities are the entities whose replies are spoilt, with the command that concerns each.
var entities = map[string]struct {
	method, path, body string // of the request; the path is a pattern
	command            string
	element            string // of a list, by a member's text
}{
	"order created":  {"POST", `^/api/v1/orders$`, `"quantity":3`, "order", ""},
	"order":          {"GET", `^/api/v1/orders/`, "", "order", ""},
	"renewal":        {"POST", `^/api/v1/proxies/renew$`, `"px_1"`, "renewal", `"px_1"`},
	"proxy":          {"GET", `^/api/v1/proxies/px_5$`, "", "guarded", ""},
	"offer":          {"GET", `^/api/v1/offers`, "", "quoted", `"off_de_frankfurt"`}, // of the quantity 1
	"wallet, opened": {"GET", `^/api/v1/wallet$`, "", "", ""},
}

// others are the unaffected commands. They end as always, within the hour, whatever the
// provider replies about the spoilt entity.
var others = map[string]string{
	"other-order":   `{"id":"other-order","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}]}`,
	"other-renewal": `{"id":"other-renewal","duration_days":30,"proxy_ids":["px_3","px_4"]}`,
	"other-guarded": `{"id":"other-guarded","duration_days":30,"proxy_ids":["px_6"],"due_before":"%s"}`,
	"other-quoted":  `{"id":"other-quoted","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":2}],"max_total_cents":5000}`,
}

var concerned = map[string]string{
	"order":   `{"id":"order","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":3}]}`,
	"renewal": `{"id":"renewal","duration_days":30,"proxy_ids":["px_1","px_2"]}`,
	"guarded": `{"id":"guarded","duration_days":30,"proxy_ids":["px_5","px_7"],"due_before":"%s"}`,
	"quoted":  `{"id":"quoted","duration_days":30,"items":[{"offer_code":"off_de_frankfurt","quantity":1}],"max_total_cents":5000}`,
}

func (s *simulation) isOf(kind string, request *http.Request, body string) bool {
	e := entities[kind]
	return request.Method == e.method && regexp.MustCompile(e.path).MatchString(request.URL.Path) && strings.Contains(body, e.body) &&
		(kind != "offer" || strings.Contains(request.URL.RawQuery, "quantity=1&") || strings.HasSuffix(request.URL.RawQuery, "quantity=1")) &&
		(kind != "order" || strings.HasSuffix(request.URL.Path, "/"+s.orderOfCommand("order")))
}

// answeredOtherwise returns the reply that replaces the provider's, or nil.
func (s *simulation) answeredOtherwise(request *http.Request, body string) *http.Response {
	if s.spoilt == nil || s.spoilt.path != wholeReply || !s.isOf(s.spoilt.kind, request, body) {
		return nil
	}
	other := otherReplies[s.spoilt.value]
	s.counts.served++
	s.sayf("%s %s: %s instead", request.Method, route(request.URL.Path), s.spoilt.value)
	return &http.Response{StatusCode: other.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(other.body)), ContentLength: int64(len(other.body)), Request: request}
}

// spoil changes a reply if it is about the entity.
func (s *simulation) spoil(request *http.Request, body string, response *http.Response) {
	text, err := io.ReadAll(response.Body)
	s.must(err, "read a reply")
	defer func() { response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text)) }()
	for kind, e := range entities {
		if !s.isOf(kind, request, body) {
			continue
		}
		if s.seen != nil {
			collectPaths(s.seen, kind, "", text, e.element)
		}
		if s.spoilt != nil && s.spoilt.kind == kind && s.spoilt.path != wholeReply {
			value := slices.IndexFunc(wrongValues, func(v wrongValue) bool { return v.name == s.spoilt.value })
			text = replaced(text, strings.Split(s.spoilt.path, "."), e.element, wrongValues[value])
			response.Header.Del("Content-Length")
		}
	}
}

// orderOfCommand returns the order that a command made, according to the referee.
func (s *simulation) orderOfCommand(id string) string {
	o, err := s.ledger.Operations.Operation(context.Background(), id+"/1")
	if err != nil || o.OrderNo == "" {
		return "none"
	}
	return o.OrderNo
}

// collectPaths adds the paths of a reply's members to into.
func collectPaths(into map[spoilt]bool, kind, at string, text []byte, element string) {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return
	}
	for name, raw := range members {
		path := strings.TrimPrefix(at+"."+name, ".")
		if kind != "offer" || strings.Contains(path, "*") { // the rest is of all offers
			into[spoilt{kind: kind, path: path}] = true
		}
		collectPaths(into, kind, path, raw, element)
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) == nil && len(list) > 0 {
			collectPaths(into, kind, path+".*", list[chosen(list, element)], element)
		}
	}
}

// chosen returns the index of the list's entry about the entity.
func chosen(list []json.RawMessage, element string) int {
	return max(0, slices.IndexFunc(list, func(x json.RawMessage) bool { return element != "" && bytes.Contains(x, []byte(element)) }))
}

// replaced returns a JSON text with one member's value replaced.
func replaced(text []byte, path []string, element string, value wrongValue) []byte {
	if len(path) == 0 {
		return []byte(value.text)
	}
	if path[0] == "*" {
		var list []json.RawMessage
		if json.Unmarshal(text, &list) != nil || len(list) == 0 {
			return text
		}
		i := chosen(list, element)
		list[i] = replaced(list[i], path[1:], element, value)
		return slices.Concat([]byte("["), bytes.Join(asBytes(list), []byte(",")), []byte("]"))
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil {
		return text
	}
	old, has := members[path[0]]
	last := len(path) == 1
	var more []byte
	switch {
	case !has && last && value.name == "absent", !has && !last:
		return text
	case last && value.name == "absent":
		delete(members, path[0])
	case last && value.name == "twice":
		more = fmt.Appendf(nil, `,%q:%s`, path[0], `"another"`)
	default:
		members[path[0]] = replaced(old, path[1:], element, value)
	}
	out := []byte("{")
	for i, name := range slices.Sorted(maps.Keys(members)) {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(fmt.Appendf(out, "%q:", name), members[name]...)
	}
	return append(append(out, more...), '}')
}

func asBytes(list []json.RawMessage) (out [][]byte) {
	for _, x := range list {
		out = append(out, x)
	}
	return out
}

// withSpoilt simulates the commands with one permanent wrong value, and returns the outcome of
// the command that it concerns.
func withSpoilt(ctx context.Context, template []byte, dir string, x *spoilt, seen map[spoilt]bool) (s *simulation, outcome string) {
	s = newSimulation(1)
	defer s.recovered()
	defer s.close()
	s.build(ctx, template, dir)
	s.control("DELETE", "/moods", nil)
	s.control("POST", "/wallet", map[string]any{"account_id": sandbox.DemoAccountID, "environment": "sandbox", "add_cents": 500_000})
	s.config = simConfig{rate: 1e9}
	opened := x != nil && x.kind == "wallet, opened"
	if s.seen = seen; !opened {
		s.spoilt = x
	}
	s.begin(ctx)
	s.spoilt = x
	began, due := s.time, s.time.Add(60*24*time.Hour).Format(time.RFC3339)
	for _, commands := range []map[string]string{concerned, others} {
		for _, id := range slices.Sorted(maps.Keys(commands)) {
			var body map[string]any
			s.must(json.Unmarshal([]byte(strings.Replace(commands[id], "%s", due, 1)), &body), id)
			s.publishAs(id, body)
		}
	}
	s.deadline = began.Add(time.Hour)
	s.settle(ctx)
	if s.failure = s.lateOnes(ctx); s.failure != "" {
		return s, ""
	}
	concern := "order"
	if x != nil {
		concern = entities[x.kind].command
	}
	outcome = s.outcomeOf(ctx, concern)
	for range 6 { // the person looks at the provider's books
		s.time = s.time.Add(5 * time.Minute)
		s.answer(ctx)
		s.settle(ctx)
	}
	s.spoilt = nil
	s.accounts(ctx)
	return s, outcome
}

// lateOnes returns an unaffected command that did not end in time.
func (s *simulation) lateOnes(ctx context.Context) string {
	for id := range others {
		ends := 0
		operations, err := s.ledger.Operations.OperationsOf(ctx, id)
		s.must(err, "operations")
		for _, o := range operations {
			if (o.State == fact.StateDelivered || o.State == fact.StateCompleted) && !o.UpdatedAt.After(s.deadline) {
				ends++
			}
		}
		if ends == 0 || ends < len(operations) {
			return fmt.Sprintf("%s did not end within the hour: %+v", id, operations)
		}
	}
	return ""
}

// outcomeOf returns a command's outcome in a word.
func (s *simulation) outcomeOf(ctx context.Context, id string) string {
	var words []string
	operations, err := s.ledger.Operations.OperationsOf(ctx, id)
	s.must(err, "operations")
	if len(operations) == 0 && id != "" {
		if _, err := s.ledger.Operations.Rejection(ctx, id); err == nil {
			return "refused"
		}
	}
	for _, o := range operations {
		word := map[fact.State]string{
			fact.StateDelivered: "as usual", fact.StateCompleted: "as usual", fact.StateReview: "needs review", fact.StateRejected: "refused",
			fact.StatePartial: "part", fact.StateHeld: "held",
		}[o.State]
		if word == "" {
			word = string(o.State)
		}
		lines, err := s.ledger.Operations.Lines(ctx, o.ID)
		s.must(err, "lines")
		for _, l := range lines {
			switch {
			case l.State == fact.LineUnresolved && o.State != fact.StateReview:
				word = "one line needs review"
			case l.State == fact.LineSkipped:
				word = "one proxy left out"
			}
		}
		words = append(words, word)
	}
	rows, err := s.ledger.Rows(ctx, 0, 1000)
	s.must(err, "rows")
	for _, r := range rows {
		if r.Type == "ledger.discrepancy" && (r.Operation == id+"/1" || strings.HasPrefix(r.Operation, id+"/")) {
			words = append(words, "finding")
		}
	}
	slices.Sort(words)
	words = slices.Compact(words)
	if id == "" {
		return "no command waits"
	}
	if len(words) > 1 {
		words = slices.DeleteFunc(words, func(w string) bool { return w == "as usual" })
	}
	return strings.Join(words, ", ")
}

// TestEveryWrongValueStaysWhereItIs puts every kind of wrong value into every member of every
// reply about one order, renewal, proxy and offer. All other commands end within the hour,
// nothing is charged twice, and the books close. The outcomes of the affected command are the
// table in testdata/traps/README.md. A quick run checks a part of it.
func TestEveryWrongValueStaysWhereItIs(t *testing.T) {
	template, dir := ledgerTemplate(t), simDir(t)
	seen := map[spoilt]bool{}
	s, usual := withSpoilt(t.Context(), template, dir, nil, seen)
	if s.failure != "" || usual != "as usual" {
		t.Fatalf("with nothing wrong: %s %s\n%s", usual, s.failure, s.tail())
	}
	members := slices.SortedFunc(maps.Keys(seen), func(a, b spoilt) int { return strings.Compare(a.kind+a.path, b.kind+b.path) })
	if len(members) < 60 {
		t.Fatalf("only %d members were seen: %v", len(members), members)
	}
	var all []spoilt
	for kind := range maps.Keys(entities) {
		if kind != "wallet, opened" && kind != "offer" { // its reply is of all offers
			members = append(members, spoilt{kind: kind, path: wholeReply})
		}
	}
	slices.SortFunc(members, func(a, b spoilt) int { return strings.Compare(a.kind+a.path, b.kind+b.path) })
	for _, m := range members {
		if m.path == wholeReply {
			for _, name := range slices.Sorted(maps.Keys(otherReplies)) {
				all = append(all, spoilt{m.kind, m.path, name})
			}
			continue
		}
		for _, value := range wrongValues {
			all = append(all, spoilt{m.kind, m.path, value.name})
		}
	}
	if stride := strideOfValues(); stride > 1 {
		chosen := all[:0]
		for i := 0; i < len(all); i += stride {
			chosen = append(chosen, all[i])
		}
		all = chosen
	}
	outcomes := make([]string, len(all))
	failures := make([]string, len(all))
	var workers errgroup.Group
	workers.SetLimit(2 * runtime.NumCPU())
	for i := range all {
		workers.Go(func() error {
			s, outcome := withSpoilt(t.Context(), template, dir, &all[i], nil)
			if outcomes[i] = outcome; s.failure != "" {
				failures[i] = fmt.Sprintf("%s: %s\n%s", all[i], s.failure, strings.Join(s.trace[max(0, len(s.trace)-*valuesTail):], "\n"))
			}
			return nil
		})
	}
	_ = workers.Wait()
	failed := 0
	for _, text := range failures {
		if text != "" {
			if failed++; failed <= 5 || *valuesTail == 0 {
				t.Error(text)
			}
		}
	}
	if failed > 5 {
		t.Errorf("%d in all", failed)
	}
	checkValuesTable(t, all, outcomes)
}

// strideOfValues returns the step between the values of a run: 1 with -values.update,
// otherwise larger.
func strideOfValues() int {
	switch {
	case *updateValues:
		return 1
	case testrun.Check:
		return 11
	}
	return 307
}

const (
	valuesBegin = "<!-- generated: what each wrong value does -->\n"
	valuesEnd   = "<!-- end -->\n"
)

// checkValuesTable compares each command's outcome with the table in the docs, or writes the
// table.
func checkValuesTable(t *testing.T, all []spoilt, outcomes []string) {
	t.Helper()
	const path = "../testdata/traps/README.md"
	page, err := os.ReadFile(path)
	check(t, err)
	before, rest, found := strings.Cut(string(page), valuesBegin)
	table, after, closed := strings.Cut(rest, valuesEnd)
	if !found || !closed {
		t.Fatalf("%s has no place for the table", path)
	}
	if *updateValues {
		text := before + valuesBegin + valuesTable(all, outcomes) + valuesEnd + after
		check(t, os.WriteFile(path, []byte(text), 0o600))
		return
	}
	for i, x := range all {
		if !saysOutcome(table, x, outcomes[i]) {
			t.Errorf("%s: %q, and %s says otherwise: go test ./jobs -run EveryWrongValue -values.update", x, outcomes[i], path)
		}
	}
}

// saysOutcome reports whether the table gives this outcome for a member and value.
func saysOutcome(table string, x spoilt, outcome string) bool {
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, " | "); len(cells) > 2 && strings.TrimPrefix(cells[0], "| ") == x.kind && cells[1] == "`"+x.path+"`" {
			for group := range strings.SplitSeq(strings.TrimSuffix(strings.TrimSpace(cells[2]), " |"), "; ") {
				word, values, _ := strings.Cut(group, ": ")
				if named := slices.Contains(strings.Split(values, ", "), x.value); named || values == "all" || values == "the others" {
					return word == "**"+outcome+"**"
				}
			}
		}
	}
	return false
}

// valuesTable returns a row for each member, with its values grouped by outcome.
func valuesTable(all []spoilt, outcomes []string) string {
	type row struct{ kind, path string }
	by := map[row]map[string][]string{}
	var rows []row
	for i, x := range all {
		r := row{x.kind, x.path}
		if by[r] == nil {
			by[r], rows = map[string][]string{}, append(rows, r)
		}
		by[r][outcomes[i]] = append(by[r][outcomes[i]], x.value)
	}
	var b strings.Builder
	b.WriteString("| reply | member | what becomes of the command |\n|---|---|---|\n")
	for _, r := range rows {
		var groups []string
		all := slices.SortedFunc(maps.Keys(by[r]), func(a, c string) int { return cmp.Or(len(by[r][a])-len(by[r][c]), strings.Compare(a, c)) })
		for i, outcome := range all {
			values := strings.Join(by[r][outcome], ", ")
			switch {
			case len(all) == 1:
				values = "all"
			case i == len(all)-1: // the most
				values = "the others"
			}
			groups = append(groups, "**"+outcome+"**: "+values)
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", r.kind, r.path, strings.Join(groups, "; "))
	}
	return b.String()
}

// patience returns how many steps a simulation may take to finish.
func (s *simulation) patience() int {
	if s.spoilt != nil {
		return 10_000 // what cannot be read is read again for a week
	}
	return 3000
}
