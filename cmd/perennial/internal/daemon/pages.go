// The connection between package web and the accounts with their service requests.

package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"time"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/verbs"
	"perennial/cmd/perennial/internal/web"
	"perennial/cmd/perennial/internal/webhook"
	"perennial/jobs"
	"perennial/jobs/command"
	"perennial/queue"
	"perennial/queue/letters"
	"perennial/queue/publish"
	"perennial/queue/service"
	"perennial/schedules/plans"
	"perennial/upstream"
)

// KeyFile returns the path of the key that signs sessions and one-time links.
func KeyFile(dataDir string) string { return filepath.Join(dataDir, "web.key") }

// LoginCode returns a code that signs a person in to the web UI of the runner that uses
// dataDir.
func LoginCode(dataDir string, p web.Person) (string, error) {
	key, err := web.Key(KeyFile(dataDir), false)
	if err != nil {
		return "", err
	}
	return web.Link(key, p, time.Now()), nil
}

func newPages(h *Host) (*web.Server, error) {
	key, err := web.Key(KeyFile(h.Config.DataDir), true)
	if err != nil {
		return nil, err
	}
	accounts := make([]web.Account, 0, len(h.Accounts))
	for _, a := range h.Accounts {
		accounts = append(accounts, pageAccount{a})
	}
	identity, err := h.Config.HTTP.Identity.OfPages()
	if err != nil {
		return nil, err
	}
	return web.New(web.Config{
		Accounts: accounts, Key: key, Identity: identity, ServesHost: h.Config.HTTP.ServesHost, Clock: time.Now, Log: h.log.WithField("part", "web"), Version: config.Version,
		Runners: h.runnersShown,
		Tokens: func() ([]web.Token, error) {
			if h.Config.HTTP.TokensFile == "" {
				return nil, nil
			}
			return web.ReadTokens(h.Config.ResolvePath(h.Config.HTTP.TokensFile))
		},
	}), nil
}

// pageAccount implements web.Account.
type pageAccount struct{ *account }

func (p pageAccount) AccountName() string { return p.Name }

func (p pageAccount) Role() string { return p.role() }

func (p pageAccount) Health() []web.Check { return p.checks() }

func (p pageAccount) Letters(ctx context.Context, after uint64) iter.Seq2[web.Letter, error] {
	return func(yield func(web.Letter, error) bool) {
		for l, err := range p.letters().After(ctx, after) {
			if !yield(letterShown(l), err) {
				return
			}
		}
	}
}

func (p pageAccount) CountLetters(ctx context.Context) (int64, error) {
	if down := p.host.Queue.Down(); down != "" {
		return 0, errors.New(down) // a page must not wait until NATS responds again
	}
	return p.letters().Count(ctx)
}

func (p pageAccount) Letter(ctx context.Context, seq uint64) (web.Letter, error) {
	l, err := p.letters().Read(ctx, seq)
	if errors.Is(err, letters.ErrNone) {
		err = web.ErrNoLetter
	}
	return letterShown(l), err
}

// Requeue refuses content that the runner would refuse. Before
// the command is published, the journal records who publishes it. The page publishes the
// content itself: if the service request did, NATS users without permission to publish could
// publish through it.
func (p pageAccount) Requeue(ctx context.Context, seq uint64, content []byte, by, reason string) error {
	p.corrections.Lock()
	defer p.corrections.Unlock()
	letter, err := p.letters().Read(ctx, seq)
	if errors.Is(err, letters.ErrNone) {
		return web.ErrNoLetter
	}
	if err != nil {
		return err
	}
	binding, err := p.Ledger().Binding(ctx)
	if err != nil {
		return err
	}
	kind := queue.KindOf(p.Name, letter.Dead.Subject)
	if err := queue.ValidKind(kind); err != nil {
		return err
	}
	if _, err := command.Parse(jobs.KindOf(kind), content, command.Rules{Environment: upstream.Environment(binding.Environment), CIDRField: p.host.Config.Accounts[p.Name].CIDRField}); err != nil {
		return err
	}
	var noted verbs.Changed
	if err := p.Ask(ctx, verbs.DeadRequeue.Name, verbs.DeadRequest{Seq: seq, By: by, Reason: reason, ContentHash: command.MessageHash(content)}, &noted); err != nil {
		return err
	}
	if err := publish.New(p.js()).Publish(ctx, p.Name, publish.Outgoing{Kind: kind, Data: content}); err != nil {
		return fmt.Errorf("publish it: %w; whether it was published is not known, and the dead letter is still there: send the same id again", err)
	}
	if err := p.letters().Drop(ctx, seq); err != nil && !errors.Is(err, letters.ErrNone) {
		return fmt.Errorf("it is published, and its dead letter cannot be removed: %w", err)
	}
	return nil
}

// webhooksOf implements web.Webhooks.
type webhooksOf struct{ *account }

func (p pageAccount) Webhooks() web.Webhooks { return webhooksOf(p) }

func (p webhooksOf) List(ctx context.Context) ([]webhook.Status, error) {
	return WebhooksOf(ctx, p.host.Config, p.host.Queue, p.Name)
}

func (p webhooksOf) named(name string) (config.Webhook, error) {
	w, ok := p.host.Config.Webhook(name)
	if !ok || w.Account != p.Name {
		return w, fmt.Errorf("no webhook %.80q is configured for this account", name)
	}
	return w, nil
}

func (p webhooksOf) Test(ctx context.Context, name string) (string, error) {
	w, err := p.named(name)
	if err != nil {
		return "", err
	}
	r, host, _, err := TestWebhook(ctx, p.host.Config, w)
	if err != nil {
		return "", err
	}
	said := fmt.Sprintf("%s: %s, %s after %d ms", host, r.Outcome, r.Reason, r.Took.Milliseconds())
	if r.Outcome != webhook.Delivered {
		return "", errors.New(said)
	}
	return said, nil
}

func (p webhooksOf) Replay(ctx context.Context, name string, seq uint64, since time.Time, by, reason string) (string, error) {
	w, err := p.named(name)
	if err != nil {
		return "", err
	}
	r, err := ReplayWebhook(ctx, p.host.Queue, w, Replay{seq, since, by, reason})
	if err != nil {
		return "", err
	}
	return r.String(), nil
}

func letterShown(l letters.Letter) web.Letter {
	return web.Letter{Seq: l.Seq, Published: l.Dead.Published, Subject: l.Dead.Subject, Reason: l.Dead.Reason, Bytes: len(l.Dead.Data), Text: l.Dead.Text()}
}

func (h *Host) runnersShown(ctx context.Context) ([]web.Runner, error) {
	all, err := h.liveRunners(ctx)
	shown := make([]web.Runner, 0, len(all))
	for _, n := range all {
		one := web.Runner{Name: n.Node, Version: n.Version, StartedAt: n.StartedAt, SaidAt: n.SaidAt, Stopping: n.Stopping, This: n.Node == h.name.Get()}
		for _, a := range n.Accounts {
			one.Accounts = append(one.Accounts, web.RunnerAccount(a))
		}
		shown = append(shown, one)
	}
	return shown, err
}

func (p pageAccount) Reveal(ctx context.Context, proxyID string) (all []web.Credential, err error) {
	if p.Client == nil {
		return nil, errors.New("this runner has no client of the provider: ask on the page of another runner, or perennial proxies get --reveal where the secret is")
	}
	c, err := p.Client.Reveal(ctx, proxyID)
	if err != nil {
		return nil, err
	}
	for _, x := range [][2]string{{"Host", c.Host()}, {"Port", c.Port()}, {"Username", c.Username()}, {"Password", c.Password()}, {"SOCKS5 URI", c.SOCKS5URI()}, {"Connection", c.Connection()}} {
		if x[1] != "" {
			all = append(all, web.NewCredential(x[0], x[1]))
		}
	}
	return all, nil
}

// Ask asks the account's leader, on whichever machine it runs.
func (p pageAccount) Ask(ctx context.Context, verb string, question, answer any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	data, err := service.Request(ctx, p.js(), p.Name, verb, body)
	if refused, ok := errors.AsType[*service.Error](err); ok {
		if refused.Code == CodeUnconfirmed {
			return fmt.Errorf("%w: %s", web.ErrUnconfirmed, refused.Description)
		}
		return errors.New(refused.Description)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return web.ErrNoAnswer
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("the answer to %s cannot be read: %w", verb, err)
	}
	return nil
}

func (p pageAccount) Schedules() []plans.Schedule { return p.host.Config.SchedulesOf(p.Name) }

func (p pageAccount) ReadList(name string) ([]byte, error) { return p.host.Config.ReadListFile(name) }
