package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"perennial/queue"
	"perennial/queue/caller"
)

// maxServing limits the concurrent requests of an account. maxChanging separately limits
// requests that make changes, so that an operator's pause need not wait for a list, plan or
// reconciliation.
const (
	maxServing  = 16
	maxChanging = 8
	// maxSlow limits requests that read the provider. They may take minutes each, and continue
	// even if their client ends. They do not count against maxServing.
	maxSlow = 16
	// maxParked limits the requests that wait for an event. maxParkedOfUser limits those of one
	// user. Such requests use memory but do no work.
	maxParked       = 4096
	maxParkedOfUser = 512
)

// ServiceQueue is the queue group of every verb.
const ServiceQueue = micro.DefaultQueueGroup

// Pace says how long a verb's requests take, which determines which limit applies.
type Pace int

// The paces of verbs.
const (
	Quick  Pace = iota // reads or writes the ledger
	Slow               // reads the provider, which may take minutes
	Parked             // replies when an event has happened
)

// Verb is a kind of request to an account's service on NATS: its name, the roles that may
// send it, and its handler. Handle is nil if the verb is only described.
type Verb struct {
	Name  string
	Roles []queue.Role
	Pace  Pace
	// Metadata is shown in $SRV.INFO, for example the verb's schemas. It may be nil.
	Metadata map[string]string
	Handle   Handler
}

// Changes reports whether only operators may send the verb, because it makes changes.
func (v Verb) Changes() bool { return slices.Equal(v.Roles, []queue.Role{queue.RoleOperator}) }

// Handler handles the requests of a verb and returns the reply. If the error is an [Error],
// it determines the code and body of the error reply. For any other error the code is
// "failed" and the description is its text.
type Handler = func(ctx context.Context, data []byte) ([]byte, error)

type (
	callerKey  struct{}
	headersKey struct{}
)

// RequestHeader returns a header of the request that is being handled, ignoring the case of
// its name.
func RequestHeader(ctx context.Context, name string) string {
	h, _ := ctx.Value(headersKey{}).(nats.Header)
	return queue.Header(h, name)
}

// Caller returns the user who sent the request that is being handled, as the NATS server
// identified it. It returns "" if users have no NATS accounts of their own, because any
// client could then claim a name.
func Caller(ctx context.Context) string {
	caller, _ := ctx.Value(callerKey{}).(string)
	return caller
}

var semanticVersion = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

// Service describes the service of an account.
type Service struct {
	Account string
	// Version is the program's version. If it is not a semantic version, 0.0.0 is shown.
	Version string
	Verbs   []Verb
	Clock   func() time.Time
}

// Serve handles requests on perennial.svc.<account>.<verb> until the caller calls stop. It is a
// NATS micro service named perennial-<account>. When Serve returns, the server knows the verbs,
// unless the connection was lost. Each request's context has the values of ctx. stop refuses new
// requests, cancels the contexts of requests in progress, and returns when these have ended.
func Serve(ctx context.Context, js *queue.JetStream, s Service) (stop func() error, err error) {
	if err := queue.ValidAccount(s.Account); err != nil {
		return nil, err
	}
	metadata := map[string]string{"version": s.Version}
	if !semanticVersion.MatchString(s.Version) {
		s.Version = "0.0.0"
	}
	found, err := discoverable(js, "perennial-"+s.Account, s.Version, "Perennial's account "+s.Account, metadata, s.Clock)
	if err != nil {
		return nil, fmt.Errorf("service of account %s: %w", s.Account, err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	serving := &serving{js: js, ctx: ctx, all: caller.NewRoom(maxServing, caller.MaxOfUser), changing: caller.NewRoom(maxChanging, caller.MaxOfUser), parked: caller.NewRoom(maxParked, maxParkedOfUser), slow: caller.NewRoom(maxSlow, caller.MaxOfUser)}
	stop = sync.OnceValue(func() error {
		err := stopService(js, found)
		cancel()
		serving.wait()
		return err
	})
	for _, v := range s.Verbs {
		if err := serving.add(found, s.Account, v); err != nil {
			return nil, errors.Join(err, stop())
		}
	}
	if js.Conn().IsConnected() { // after an outage nats.go subscribes again
		_ = js.Conn().FlushTimeout(queue.PublishTimeout)
	}
	return stop, nil
}

// stopService removes the service's subscriptions. While the connection is down, the
// subscriptions cannot be removed from the server. After a reconnection, nats.go would subscribe
// again, and the server would send requests to a stopped service. stopService therefore removes
// the subscriptions when the connection is up. Until then, requests are refused with
// codeStopping.
func stopService(js *queue.JetStream, service *discovery) error {
	up := js.Conn().StatusChanged(nats.CONNECTED, nats.CLOSED) // registered first, so that no connection in between is missed
	if js.Conn().IsConnected() || js.Conn().IsClosed() {
		js.Conn().RemoveStatusListener(up)
		return service.Stop()
	}
	go func() {
		<-up
		js.Conn().RemoveStatusListener(up)
		if err := service.Stop(); err != nil && !js.Conn().IsClosed() {
			js.Log().WithError(err).Warn("the subscriptions from before an outage could not be removed")
		}
	}()
	return nil
}

// maxWaitingBytes limits the total size of one verb's waiting requests; MaxWaiting limits
// their number. Further requests are dropped and get no reply.
const maxWaitingBytes = 8 << 20

type serving struct {
	js       *queue.JetStream
	ctx      context.Context
	all      *caller.Room
	changing *caller.Room
	parked   *caller.Room
	slow     *caller.Room
	mu       sync.Mutex
	ended    bool
	work     sync.WaitGroup
}

func (s *serving) roomOf(v Verb) *caller.Room {
	switch {
	case v.Pace == Parked:
		return s.parked
	case v.Pace == Slow:
		return s.slow
	case v.Changes():
		return s.changing
	}
	return s.all
}

func (s *serving) add(service *discovery, account string, v Verb) error {
	if !queue.ValidToken(v.Name) {
		return fmt.Errorf("verb %q cannot be a subject", v.Name)
	}
	room := s.roomOf(v)
	err := service.add(v.Name, queue.ServiceSubject(account, v.Name), v.Metadata, func(request *request) {
		if !caller.MayAnswer(request.Reply) {
			request.end("refused:it asks for its answer on a subject of NATS or of Perennial, or for none")
			s.js.Log().WithField("subject", request.Subject).Warn("a request was left alone: it asks for its answer on a subject of NATS or of Perennial, or for none")
			return
		}
		user := caller.Of(request.Header, request.Reply)
		if user == "" && caller.Crossed(request.Reply) {
			s.refuse(request, &Error{Code: codeUnproven, Description: "the headers of the request hide who asks: send it as a client of NATS does"})
			return
		}
		share := room.Admit(user)
		if share == nil {
			s.refuse(request, &Error{Code: codeBusy, Description: "too many requests of this user wait for their answers: ask again when some are there"})
			return
		}
		started := s.start(func() {
			if !room.Work(s.ctx, share, func() { s.answer(request, v.Handle) }) {
				s.refuse(request, stopping())
			}
		})
		if !started {
			s.refuse(request, stopping())
		}
	})
	if err != nil {
		return fmt.Errorf("verb %s: %w", v.Name, err)
	}
	return nil
}

func (s *serving) start(work func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.work.Go(work)
	return true
}

func (s *serving) wait() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.work.Wait()
}

func (s *serving) answer(request *request, answer Handler) {
	user := caller.Of(request.Header, request.Reply)
	ctx := context.WithValue(context.WithValue(s.ctx, callerKey{}, user), headersKey{}, request.Header)
	data, err := answer(ctx, request.Data)
	if err == nil {
		s.respond(request, data)
		return
	}
	refused := &Error{Code: "failed", Description: err.Error()}
	errors.As(err, &refused)
	if s.ctx.Err() != nil && errors.Is(err, context.Canceled) {
		refused = stopping()
	}
	s.refuse(request, refused)
}

func stopping() *Error {
	return &Error{Code: codeStopping, Description: queue.ErrStopping.Error()}
}

// maxDescription limits the description of an error, in bytes. The description may contain an id
// of any length, and a header repeats it. Without the limit, a reply could exceed the message
// limit.
const maxDescription = 1000

func bounded(refused Error) Error {
	if len(refused.Description) > maxDescription {
		refused.Description = strings.ToValidUTF8(refused.Description[:maxDescription], "") + "…"
	}
	return refused
}

func (s *serving) refuse(request *request, because *Error) {
	refused := bounded(*because)
	request.end(refused.Code + ":" + refused.Description)
	body := refused.Body
	if len(body) == 0 {
		body, _ = json.Marshal(ErrorBody{refused.Code, refused.Description}) // contains text only, so encoding cannot fail
	}
	header := nats.Header{micro.ErrorCodeHeader: []string{refused.Code}, micro.ErrorHeader: []string{refused.Description}}
	if err := s.send(request, header, body); err != nil {
		s.js.Log().WithError(err).WithField("subject", request.Subject).Warn("answer not sent")
	}
}

const codeUnproven = "unproven"

const codeBusy = "busy"

const codeStopping = "stopping"

// Request sends a request to an account's runner and returns the reply. The error is an [Error]
// from the runner, or [ErrNoRunner] if no runner has the account. It is [queue.ErrStopping] if
// the runner stopped or the connection was lost. Otherwise it is ctx's error. If ctx has no
// deadline, Request waits for at most queue.PublishTimeout.
func Request(ctx context.Context, js *queue.JetStream, account, verb string, data []byte) ([]byte, error) {
	if err := queue.ValidAccount(account); err != nil {
		return nil, err
	}
	if !queue.ValidToken(verb) {
		return nil, fmt.Errorf("verb %q cannot be a subject", verb)
	}
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, queue.PublishTimeout)
		defer cancel()
	}
	ctx, release := js.WhileConnected(ctx)
	defer release()
	ctx, forget := js.Allowed(ctx, queue.ServiceSubject(account, verb))
	defer forget()
	reply, err := requestParts(ctx, js, queue.ServiceSubject(account, verb), data)
	if refused, ok := errors.AsType[*queue.DeniedError](queue.Denied(ctx, err)); ok {
		return nil, fmt.Errorf("account %s, %s: %w", account, verb, refused)
	}
	if errors.Is(err, nats.ErrNoResponders) {
		return nil, fmt.Errorf("account %s: %w: start it with `perennial run`, check the name, or see on its /readyz why it does not work (%s)", account, ErrNoRunner, verb)
	}
	if err != nil && (errors.Is(context.Cause(ctx), queue.ErrStopping) || queue.Disconnected(err)) {
		return nil, fmt.Errorf("account %s: the connection to nats was lost: %w: ask again (%s)", account, queue.ErrStopping, verb)
	}
	if err != nil {
		return nil, fmt.Errorf("request %s of account %s: %w", verb, account, err)
	}
	code := reply.Header.Get(micro.ErrorCodeHeader)
	if code == codeStopping {
		return nil, fmt.Errorf("account %s: %w: ask again (%s)", account, queue.ErrStopping, verb)
	}
	if code != "" {
		return nil, &Error{Code: code, Description: reply.Header.Get(micro.ErrorHeader), Body: reply.Data}
	}
	return reply.Data, nil
}

// Error is an error reply of an account's service. A handler returns an Error to choose its
// code and body. [Request] returns the Error that it received.
type Error struct {
	Code        string // short and stable, for programs
	Description string // one line, for people
	Body        []byte // JSON; may be empty
}

// ErrorBody is the body of an error reply, unless the handler chose another body. NATS's service
// API defines headers for the code and the description. They have the same values as the body.
type ErrorBody struct {
	Code        string `json:"code" doc:"A short and stable code, for programs."`
	Description string `json:"description" doc:"One line, for people."`
}

// Error returns the code and the description.
func (e *Error) Error() string { return e.Code + ": " + e.Description }

// ErrNoRunner reports that nothing replies on an account's service subject: no runner has
// the account now, or the runner does not know the verb.
var ErrNoRunner = errors.New("no runner answers for the account")

// The plan of a large run can have several megabytes, and a NATS server accepts at most 1 MB per
// message by default. A client that sends the header Perennial-Parts gets its reply in parts,
// each with its number and the total. Without the header it gets an error.
const (
	// HeaderParts requests a reply in parts, and numbers the parts.
	HeaderParts = "Perennial-Parts"
	// partRoom is how many bytes of each message are reserved for headers.
	partRoom = 4 << 10
	// maxAnswer limits the size, in bytes, of a reply that is assembled from parts.
	maxAnswer    = 256 << 20
	codeTooLarge = "too_large"
)

// HeaderUser is the reply header that contains the user who sent the request, as the server
// identified it.
const HeaderUser = "Perennial-User"

// respond sends a reply, in parts if it is long. If the reply cannot be sent, the client
// gets an error.
func (s *serving) respond(request *request, data []byte) {
	most := int(s.js.Conn().MaxPayload())
	var err error
	switch {
	case len(data)+partRoom <= most:
		request.end("")
		err = s.send(request, nats.Header{}, data)
	case request.Header.Get(HeaderParts) == "" || most <= partRoom || len(data) > maxAnswer:
		err = nats.ErrMaxPayload
	default:
		request.end("")
		err = s.respondInParts(request, data, most-partRoom)
	}
	if err == nil {
		return
	}
	s.js.Log().WithError(err).WithField("subject", request.Subject).WithField("bytes", len(data)).Warn("answer not sent")
	s.refuse(request, &Error{Code: codeTooLarge, Description: fmt.Sprintf(
		"the answer of %d bytes cannot be sent (%s; max_payload of the NATS server is %d): ask for less, or with the header %s", len(data), err, most, HeaderParts)})
}

func (s *serving) send(request *request, header nats.Header, data []byte) error {
	if user := caller.Of(request.Header, request.Reply); user != "" {
		header.Set(HeaderUser, user)
	}
	return s.js.Conn().PublishMsg(&nats.Msg{Subject: request.Reply, Header: header, Data: data})
}

func (s *serving) respondInParts(request *request, data []byte, size int) error {
	parts := (len(data) + size - 1) / size
	for n := range parts {
		header := nats.Header{HeaderParts: []string{fmt.Sprintf("%d/%d", n+1, parts)}}
		if err := s.send(request, header, data[n*size:min((n+1)*size, len(data))]); err != nil {
			return fmt.Errorf("part %d of %d: %w", n+1, parts, err)
		}
	}
	return nil
}

func requestParts(ctx context.Context, js *queue.JetStream, subject string, data []byte) (*nats.Msg, error) {
	inbox := js.Conn().NewInbox()
	answers, err := js.Conn().SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answers.Unsubscribe() }()
	if err := answers.SetPendingLimits(-1, maxAnswer); err != nil {
		return nil, err
	}
	ask := nats.NewMsg(subject)
	ask.Reply, ask.Data = inbox, data
	ask.Header.Set(HeaderParts, "1")
	if err := js.Conn().PublishMsg(ask); err != nil {
		return nil, err
	}
	var whole *nats.Msg
	for read := 1; ; read++ {
		part, err := answers.NextMsgWithContext(ctx)
		if err != nil {
			return nil, err
		}
		text := part.Header.Get(HeaderParts)
		if text == "" { // a short reply, or an error after some parts
			return part, nil
		}
		n, of, err := partOf(text)
		if err != nil || n != read {
			return nil, fmt.Errorf("part %d of the answer says that it is %.20q: ask again", read, text)
		}
		if whole == nil {
			whole = part
		} else {
			whole.Data = append(whole.Data, part.Data...)
		}
		if n == of {
			return whole, nil
		}
	}
}

func partOf(text string) (n, of int, err error) {
	first, second, _ := strings.Cut(text, "/")
	n, errN := strconv.Atoi(first)
	of, errOf := strconv.Atoi(second)
	return n, of, errors.Join(errN, errOf)
}
