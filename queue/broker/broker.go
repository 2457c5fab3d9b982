package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"perennial/queue"
	"perennial/queue/caller"
)

const brokerAnswer = 5 * time.Second

// Brokered returns the JetStream requests that go through the broker. INFO and STREAM.NAMES are
// among them, because JetStream's own replies would list all streams. INFO is required, because
// a client whose account does not import it assumes that JetStream is disabled.
func Brokered(stream string) []string {
	return []string{
		"INFO", "STREAM.NAMES",
		"CONSUMER.CREATE." + stream, "CONSUMER.CREATE." + stream + ".>", "CONSUMER.DURABLE.CREATE." + stream + ".*",
		ConsumerDelete(stream), "DIRECT.GET." + stream, "DIRECT.GET." + stream + ".>",
	}
}

// ConsumerDelete returns the request that deletes a consumer of a stream.
func ConsumerDelete(stream string) string { return "CONSUMER.DELETE." + stream + ".*" }

// AnyOf is the prefix of requests from operators. Operators may use the consumers of any user.
const AnyOf = "ANY."

// BrokerSubject returns the subject on which the broker receives a request of JetStream's
// API.
func BrokerSubject(account, op string) string { return "perennial.js." + account + "." + op }

// ownerKey is the key in a consumer's metadata under which the broker records the user who
// created the consumer.
const ownerKey = "perennial.user"

type broker struct {
	js      *queue.JetStream
	account string
	ctx     context.Context // ends with the service
	inside  *caller.Room
	work    sync.WaitGroup
	// share is the limit for the consumers of one user, and most is the limit for those of all
	// users.
	share, most int
}

// brokerSlots limits the concurrent requests. It also limits those of each user, so that no user
// waits because of another user's requests.
const brokerSlots = 32

// Serve handles the requests of an account's subscribers until stop is called. Every runner
// of the account serves them, whether it is the leader or not; NATS gives each request to
// one of them.
func Serve(js *queue.JetStream, account string) (stop func() error, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	b := &broker{js: js, account: account, ctx: ctx, inside: caller.NewRoom(brokerSlots, caller.MaxOfUser), share: maxConsumers, most: maxAllConsumers}
	sub, err := js.Conn().QueueSubscribe(BrokerSubject(account, ">"), "perennial", b.take)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("broker of account %s: %w", account, err)
	}
	return func() error {
		err := sub.Unsubscribe()
		cancel()
		b.work.Wait()
		if errors.Is(err, nats.ErrConnectionClosed) {
			return nil
		}
		return err
	}, nil
}

// apiError is a refusal in JetStream's own form, so that every client understands it.
type apiError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *apiError) Error() string { return e.Description }

// JetStream's own errors about a missing consumer. An update gets the first error, and any other
// request gets the second.
var (
	errNoSuchConsumer = &apiError{Code: 400, ErrCode: int(jetstream.JSErrCodeConsumerDoesNotExist), Description: "consumer does not exist"}
	errNoConsumer     = &apiError{Code: 404, ErrCode: int(jetstream.JSErrCodeConsumerNotFound), Description: "consumer not found"}
)

// jsForbidden is JetStream's code for a refused consumer configuration.
const jsForbidden = 10012

var errBrokerBusy = errors.New("too many requests of this user wait for their answers: ask again when some are there")

func (b *broker) take(m *nats.Msg) {
	share := b.inside.Admit(caller.Of(m.Header, m.Reply))
	if share == nil {
		b.answer(m, nil, errBrokerBusy)
		return
	}
	b.work.Go(func() {
		worked := b.inside.Work(b.ctx, share, func() {
			answer, err := b.pass(m)
			b.answer(m, answer, err)
		})
		if !worked {
			b.answer(m, nil, queue.ErrStopping)
		}
	})
}

func (b *broker) answer(m, answer *nats.Msg, err error) {
	if err != nil {
		refused, known := errors.AsType[*apiError](err)
		if !known {
			refused = &apiError{Code: 403, ErrCode: jsForbidden, Description: err.Error()}
		}
		text, _ := json.Marshal(map[string]any{"type": "io.nats.jetstream.api.v1.error", "error": refused})
		answer = &nats.Msg{Data: text}
		if strings.Contains(m.Subject, ".DIRECT.GET.") { // the reply to a direct get has a status instead of a body
			answer = &nats.Msg{Header: nats.Header{"Status": {"408"}, "Description": {refused.Description}}}
		}
	}
	if !caller.MayAnswer(m.Reply) {
		return
	}
	if err := b.js.Conn().PublishMsg(&nats.Msg{Subject: m.Reply, Header: answer.Header, Data: answer.Data}); err != nil {
		b.js.Log().WithError(err).WithField("account", b.account).Warn("a subscriber's request was not answered")
	}
}

func (b *broker) pass(m *nats.Msg) (*nats.Msg, error) {
	user := caller.Of(m.Header, m.Reply)
	if user == "" {
		return nil, errors.New("only a user with a role may ask the broker")
	}
	op, isOperator := strings.CutPrefix(strings.TrimPrefix(m.Subject, BrokerSubject(b.account, "")), AnyOf)
	data := m.Data
	var err error
	switch {
	case op == "INFO":
		return &nats.Msg{Data: []byte(accountInfo)}, nil
	case op == "STREAM.NAMES":
		names, err := b.names(data)
		return &nats.Msg{Data: names}, err
	case isOf(op, "DIRECT.GET."+queue.EventsStream(b.account)):
		data, err = single(data)
	case strings.HasPrefix(op, "CONSUMER.DELETE."+queue.EventsStream(b.account)+"."):
		err = b.deletes(op[strings.LastIndexByte(op, '.')+1:], user, isOperator)
	case isOf(op, "CONSUMER.CREATE."+queue.EventsStream(b.account)), strings.HasPrefix(op, "CONSUMER.DURABLE.CREATE."+queue.EventsStream(b.account)+"."):
		data, err = b.create(data, user)
	default:
		err = fmt.Errorf("%.60s is not for subscribers", op)
	}
	if err != nil {
		return nil, err
	}
	answer, err := b.js.Conn().Request(b.js.API()+op, data, brokerAnswer)
	if err != nil {
		return nil, fmt.Errorf("JetStream did not answer: %w", err)
	}
	return answer, nil
}

// single checks a direct request for one message of the stream. It refuses requests for several
// messages. The server would send the replies as fast as it can. If the client did not read the
// replies, they could fill the server's memory.
func single(data []byte) ([]byte, error) {
	if len(data) == 0 { // the message is given by the subject
		return nil, nil
	}
	var request struct {
		Seq       uint64     `json:"seq,omitempty"`
		LastFor   string     `json:"last_by_subj,omitempty"`
		NextFor   string     `json:"next_by_subj,omitempty"`
		StartTime *time.Time `json:"start_time,omitempty"`
		Batch     int        `json:"batch,omitempty"`
		MaxBytes  int        `json:"max_bytes,omitempty"`
		MultiLast []string   `json:"multi_last,omitempty"`
		UpToSeq   uint64     `json:"up_to_seq,omitempty"`
		UpToTime  *time.Time `json:"up_to_time,omitempty"`
		NoHeaders bool       `json:"no_hdr,omitempty"`
	}
	if err := json.Unmarshal(data, &request); err != nil {
		return nil, errNoJSON
	}
	if request.Batch > 1 || request.MaxBytes > 0 || len(request.MultiLast) > 0 {
		return nil, errors.New("many messages are read by a consumer: a direct request is for one")
	}
	request.Batch = 0
	return json.Marshal(request)
}

// accountInfo is the reply to the request that clients send before they use JetStream.
const accountInfo = `{"type":"io.nats.jetstream.api.v1.account_info_response","memory":0,"storage":0,"streams":1,"consumers":0,` +
	`"limits":{"max_memory":-1,"max_storage":-1,"max_streams":-1,"max_consumers":-1,"max_ack_pending":-1},"api":{"total":0,"errors":0}}`

// names returns the reply to a client that looks up a stream by its subject. The reply names at
// most the events stream.
func (b *broker) names(data []byte) ([]byte, error) {
	var request struct {
		Subject string `json:"subject"`
	}
	if len(data) > 0 {
		if err := json.Unmarshal(data, &request); err != nil {
			return nil, errNoJSON
		}
	}
	streams := []string{}
	if request.Subject == "" || strings.HasPrefix(request.Subject, queue.EventSubject(b.account, "")) {
		streams = append(streams, queue.EventsStream(b.account))
	}
	return json.Marshal(map[string]any{
		"type": "io.nats.jetstream.api.v1.stream_names_response", "total": len(streams), "offset": 0, "limit": 1024, "streams": streams,
	})
}

var errNoJSON = errors.New("the request is not JSON")

// createRequest has the fields that JetStream reads from a request for a consumer. The
// request is decoded and encoded again, because JetStream ignores the case of keys and uses
// the last of duplicate keys. JetStream must get exactly what was checked.
type createRequest struct {
	Stream   string                   `json:"stream_name"`
	Config   jetstream.ConsumerConfig `json:"config"`
	Action   string                   `json:"action,omitempty"`
	Pedantic bool                     `json:"pedantic,omitempty"`
}

// deletes returns an error unless the user may delete the consumer. Users may delete their
// own consumers, and operators may delete any. A missing consumer is an error for users,
// because another user may create it before the request reaches JetStream.
func (b *broker) deletes(name, user string, isOperator bool) error {
	if isOperator && isConsumerName(name) {
		return nil
	}
	own, err := b.owned(name, user)
	if err == nil && !own {
		err = errNoConsumer
	}
	return err
}

// OtherStream returns the error with which the runner refuses a consumer of a stream other than
// the account's events. JetStream's error has a different text.
func OtherStream(account string) error {
	return errors.New("stream_name must be " + queue.EventsStream(account))
}

// create refuses a push consumer and a consumer that another user created. Otherwise it
// returns the request with the user recorded as the creator.
func (b *broker) create(data []byte, user string) ([]byte, error) {
	var request createRequest
	if len(data) > maxCreateBytes {
		return nil, fmt.Errorf("a request for a consumer has %d bytes, of at most %d: the server keeps it", len(data), maxCreateBytes)
	}
	if err := json.Unmarshal(data, &request); err != nil {
		return nil, errNoJSON
	}
	c := &request.Config
	switch {
	case c.MaxWaiting > maxWaiting:
		return nil, fmt.Errorf("max_waiting may be up to %d", maxWaiting)
	case request.Stream != queue.EventsStream(b.account):
		return nil, OtherStream(b.account)
	case c.DeliverSubject != "" || c.DeliverGroup != "":
		return nil, errors.New("deliver_subject: a consumer that pushes is not for subscribers; make one that pulls")
	}
	fresh := true
	for _, name := range []string{c.Name, c.Durable} {
		if name == "" {
			continue
		}
		own, err := b.owned(name, user)
		if err != nil {
			return nil, err
		}
		fresh = fresh && !own
	}
	if fresh { // never change a consumer of this name that another user has created in the meantime
		if request.Action == "update" {
			return nil, errNoSuchConsumer
		}
		request.Action = "create"
		if err := b.checkShare(user); err != nil {
			return nil, err
		}
	}
	if c.Metadata == nil {
		c.Metadata = map[string]string{}
	}
	c.Metadata[ownerKey] = user
	return json.Marshal(request)
}

var consumerName = regexp.MustCompile(`^[A-Za-z0-9_=-]+$`)

func isConsumerName(name string) bool { return len(name) <= 255 && consumerName.MatchString(name) }

const (
	// maxConsumers limits the consumers of one user in a stream. Consumers created at the
	// same time may exceed it. When an ordered consumer is created again, the server
	// removes the old one only after some minutes.
	maxConsumers = 64
	// maxAllConsumers limits the consumers of all users. A server allows 1,000 per stream,
	// and the runner needs some.
	maxAllConsumers = 900
	// maxCreateBytes limits the request, because the server stores the consumer's
	// configuration. It is large enough for the names of all events.
	maxCreateBytes = 16 << 10
	// maxWaiting limits the pending requests for messages of a consumer. It is JetStream's
	// default.
	maxWaiting = 512
)

// checkShare refuses a consumer beyond the limits. Each consumer uses memory of the server, and
// `backup archive` must send one more request.
func (b *broker) checkShare(user string) error {
	ctx, cancel := context.WithTimeout(context.Background(), brokerAnswer)
	defer cancel()
	stream, err := b.js.Stream(ctx, queue.EventsStream(b.account))
	if err != nil {
		return fmt.Errorf("JetStream did not answer: %w", err)
	}
	consumers, has, all := stream.ListConsumers(ctx), 0, 0
	for info := range consumers.Info() {
		all++
		if info.Config.Metadata[ownerKey] == user {
			has++
		}
	}
	if err := consumers.Err(); err != nil {
		return fmt.Errorf("JetStream did not answer: %w", err)
	}
	if all >= b.most {
		return fmt.Errorf("%s has %d consumers: an operator can delete those that are not needed", queue.EventsStream(b.account), all)
	}
	if has >= b.share {
		return fmt.Errorf("user %s has %d consumers of %s: delete some, or take the one that is there", user, has, queue.EventsStream(b.account))
	}
	return nil
}

// owned reports whether a consumer exists. It returns an error if the consumer is another
// user's.
func (b *broker) owned(name, user string) (bool, error) {
	if !isConsumerName(name) {
		return false, fmt.Errorf("consumer name %.60q: must be 1 to 255 of a-z, A-Z, 0-9, -, _ and =", name)
	}
	ctx, cancel := context.WithTimeout(context.Background(), brokerAnswer)
	defer cancel()
	answer, err := b.js.Conn().RequestWithContext(ctx, b.js.API()+"CONSUMER.INFO."+queue.EventsStream(b.account)+"."+name, nil)
	if err != nil {
		return false, fmt.Errorf("JetStream did not answer: %w", err)
	}
	var info struct {
		Config *struct {
			Metadata map[string]string `json:"metadata"`
		} `json:"config"`
	}
	if err := json.Unmarshal(answer.Data, &info); err != nil || info.Config == nil {
		return false, nil // JetStream itself reports a missing consumer
	}
	if info.Config.Metadata[ownerKey] == user {
		return true, nil
	}
	return false, fmt.Errorf("consumer %.60s belongs to another user", name)
}

// isOf reports whether the operation op names this stream. More tokens may follow the stream's
// name. A longer name that begins with this name is another stream.
func isOf(op, stream string) bool {
	rest, found := strings.CutPrefix(op, stream)
	return found && (rest == "" || rest[0] == '.')
}
