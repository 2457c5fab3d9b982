package roles

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"perennial/queue"
	"perennial/queue/broker"
	"perennial/queue/service"
)

// Separation checks a user's permissions without changing anything, over a connection of that
// user. It requests the user's account and permissions from the server, and tries requests that
// the user's roles do not allow. It checks that the runner receives the user's requests for
// consumers, and that the runner knows who sends a request. wrong describes the differences from
// [ServerConfig]. If no runner replied, untried describes what could not be checked. Separation
// cannot detect permissions that no client request shows, such as an unused import. ctx must
// have a deadline.
func Separation(ctx context.Context, js *queue.JetStream, u User, verbs []service.Verb, accounts []string) (wrong, untried []string, err error) {
	if wrong, err = comparePermissions(ctx, js, u, verbs); err != nil {
		return nil, nil, err
	}
	through := []string{}
	for _, account := range accounts {
		for _, subject := range u.forbidden(account, verbs) {
			answered, err := answered(ctx, js, subject)
			if err != nil {
				return nil, nil, err
			}
			if answered && !slices.Contains(through, subject) {
				through = append(through, subject)
			}
		}
	}
	if len(through) > 0 {
		wrong = append(wrong, "reaches "+strings.Join(through, ", ")+" without a role for it")
	}
	past, silent, err := pastRunner(ctx, js, u)
	if err != nil {
		return nil, nil, err
	}
	unproven, mute, err := unproven(ctx, js, u)
	return slices.Concat(wrong, past, unproven), slices.Concat(silent, mute), err
}

func comparePermissions(ctx context.Context, js *queue.JetStream, u User, verbs []service.Verb) (wrong []string, err error) {
	answer, asked, err := tryRequest(ctx, js, userInfo, nil)
	if err != nil {
		return nil, err
	}
	if !asked {
		return []string{"may not ask " + userInfo + ", so that what it may do is not known"}, nil
	}
	type allowed struct {
		Allow []string `json:"allow"`
	}
	var info struct {
		Data struct {
			Account     string `json:"account"`
			AccountName string `json:"account_name"`
			Permissions *struct {
				Publish   allowed `json:"publish"`
				Subscribe allowed `json:"subscribe"`
			} `json:"permissions"`
		} `json:"data"`
	}
	if err := json.Unmarshal(answer.Data, &info); err != nil {
		return nil, fmt.Errorf("the answer to %s cannot be read: %w", userInfo, err)
	}
	if info.Data.Account != queue.UserAccount(u.Name) && info.Data.AccountName != queue.UserAccount(u.Name) {
		wrong = append(wrong, fmt.Sprintf("is in the NATS account %.64s, and not in %s of its own", info.Data.Account, queue.UserAccount(u.Name)))
	}
	if info.Data.Permissions == nil {
		return append(wrong, "may publish and subscribe to everything in its NATS account"), nil
	}
	publish, subscribe := u.subjects(verbs)
	wrong = append(wrong, compareAllowed("publish on", info.Data.Permissions.Publish.Allow, publish)...)
	return append(wrong, compareAllowed("subscribe to", info.Data.Permissions.Subscribe.Allow, subscribe)...), nil
}

func compareAllowed(do string, have, want []string) (wrong []string) {
	if len(have) == 0 {
		return []string{"may " + do + " everything in its NATS account"}
	}
	beyond := func(a, b []string) string {
		return strings.Join(slices.DeleteFunc(slices.Sorted(slices.Values(a)), func(s string) bool { return slices.Contains(b, s) }), ", ")
	}
	if more := beyond(have, want); more != "" {
		wrong = append(wrong, "may "+do+" "+more+" without a role for it")
	}
	if less := beyond(want, have); less != "" {
		wrong = append(wrong, "may not "+do+" "+less)
	}
	return wrong
}

// pastRunner requests a consumer whose stream differs from the stream in the subject.
// Neither the runner nor JetStream creates such a consumer, but their errors differ. The
// error therefore shows whether the runner handles these requests.
func pastRunner(ctx context.Context, js *queue.JetStream, u User) (wrong, untried []string, err error) {
	for _, account := range u.accountsAs(queue.RoleSubscriber, queue.RoleViewer, queue.RoleOperator) {
		subject := "$JS.API.CONSUMER.CREATE." + queue.EventsStream(account)
		answer, asked, err := tryRequest(ctx, js, subject, []byte(`{"stream_name":"PERENNIAL_NONE","config":{"ack_policy":"none"}}`))
		switch {
		case err != nil:
			return nil, nil, err
		case !asked:
			untried = append(untried, "consumers of account "+account)
		case !strings.Contains(string(answer.Data), broker.OtherStream(account).Error()):
			wrong = append(wrong, "asks for consumers of account "+account+" and is not answered by its runner, as the runner knows it: "+
				"see the import of "+subject+", with share: true")
		}
	}
	return wrong, untried, nil
}

const commonVerb = "status"

// unproven checks that the runner knows who sends a request. It sends a request that the user
// may send, and checks that the reply contains the user's name.
func unproven(ctx context.Context, js *queue.JetStream, u User) (wrong, untried []string, err error) {
	for _, account := range u.accountsAs(queue.RoleProducer, queue.RoleViewer, queue.RoleOperator) {
		answer, asked, err := tryRequest(ctx, js, queue.ServiceSubject(account, commonVerb), []byte(`{"id":"doctor"}`))
		got := answer.Header.Get(service.HeaderUser)
		switch {
		case err != nil:
			return nil, nil, err
		case !asked:
			untried = append(untried, "verbs of account "+account)
		case got != u.Name:
			wrong = append(wrong, fmt.Sprintf("is %q to the runner of account %s: its imports of perennial.svc.%s.* need share: true", got, account, account))
		}
	}
	return wrong, untried, nil
}

func (u User) accountsAs(roles ...queue.Role) []string {
	var all []string
	for _, g := range u.Grants {
		if slices.Contains(roles, g.Role) {
			all = append(all, g.Accounts...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// forbidden returns subjects that the user's roles do not include. A reply on such a subject
// would reveal something about an account or the lease bucket. A request to the subject changes
// nothing.
func (u User) forbidden(account string, verbs []service.Verb) []string {
	all := []string{
		"$JS.API.STREAM.INFO." + queue.KeyValueStream(queue.LeaseBucket), "$JS.API.STREAM.INFO." + queue.EventsStream(account), "$JS.API.STREAM.INFO." + queue.CommandsStream(account),
		queue.ServiceSubject(account, "show"), queue.ServiceSubject(account, "balance"), queue.ServiceSubject(account, "states"),
	}
	publish, _ := u.subjects(verbs)
	return slices.DeleteFunc(all, func(s string) bool { return slices.Contains(publish, s) })
}

// answered reports whether an empty request on a subject gets a reply other than the error
// that JetStream is not enabled.
func answered(ctx context.Context, js *queue.JetStream, subject string) (bool, error) {
	m, asked, err := tryRequest(ctx, js, subject, nil)
	return asked && !strings.Contains(string(m.Data), fmt.Sprintf(`"err_code":%d`, jsNotEnabled)), err
}

// jsNotEnabled is JetStream's code for an account without JetStream.
const jsNotEnabled = 10039

// tryRequest sends a request and waits for the reply. asked is false, and answer is empty, if
// the server forbids the request or nothing serves the subject.
func tryRequest(ctx context.Context, js *queue.JetStream, subject string, data []byte) (answer *nats.Msg, asked bool, err error) {
	none := &nats.Msg{}
	inbox := js.Conn().NewInbox()
	answers, err := js.Conn().SubscribeSync(inbox)
	if err != nil {
		return none, false, err
	}
	defer func() { _ = answers.Unsubscribe() }()
	if err := js.Conn().PublishRequest(subject, inbox, data); err != nil {
		return none, false, err
	}
	if err := js.Conn().FlushWithContext(ctx); err != nil {
		return none, false, err
	}
	// The server reports a forbidden subject before any reply.
	if err := js.Conn().LastError(); errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), fmt.Sprintf("%q", subject)) {
		return none, false, nil
	}
	m, err := answers.NextMsgWithContext(ctx)
	if errors.Is(err, nats.ErrNoResponders) {
		return none, false, nil
	}
	if err != nil {
		return none, false, fmt.Errorf("%s is neither refused nor answered: %w", subject, err)
	}
	return m, true, nil
}
