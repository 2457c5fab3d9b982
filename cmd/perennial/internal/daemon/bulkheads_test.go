package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"perennial/cmd/perennial/internal/config"
	"perennial/cmd/perennial/internal/verbs"
	"perennial/cmd/perennial/internal/webhook"
	"perennial/ledger/testrun"
	"perennial/queue"
	"perennial/queue/positions"
	"perennial/queue/publish"
	"perennial/upstream/sandbox"
)

// faultsOfAnAccount are faults that the provider gives one account permanently.
var faultsOfAnAccount = []string{
	`"fault":"error_before"`, `"fault":"html"`, `"fault":"garbage"`, `"fault":"drop_before"`, `"fault":"hang","seconds":3600`,
	`"fault":"code","code":"api_key_revoked","http_status":401`, `"fault":"code","code":"invalid_signature","http_status":401`,
	`"fault":"code","code":"rate_limited","http_status":429,"retry_after":"3600"`, `"fault":"code","code":"of_tomorrow","http_status":400`,
}

// faultsOfAWebhook are the permanent replies of an endpoint. 0 means no reply.
var faultsOfAWebhook = []int{0, http.StatusInternalServerError, http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusGone}

// One of three accounts gets a random provider fault, from the start or later, and one of two
// webhooks a random reply. The other accounts still execute their commands, and the other webhook
// still receives their events.
func TestOneBrokenAccountOrWebhookStopsNoOther(t *testing.T) {
	t.Parallel()
	seeds := uint64(1)
	if testrun.Check {
		seeds = 20
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { isolated(t, rand.New(rand.NewPCG(seed, seed))) })
	}
}

func isolated(t *testing.T, random *rand.Rand) {
	names := []string{"a", "b", "c"}
	broken, later := names[random.IntN(len(names))], random.IntN(2) == 1
	fault, refusal := faultsOfAnAccount[random.IntN(len(faultsOfAnAccount))], faultsOfAWebhook[random.IntN(len(faultsOfAWebhook))]
	works := names[0]
	if works == broken {
		works = names[1]
	}
	t.Logf("%s answers %s, later %t; a webhook answers %d", broken, fault, later, refusal)
	server, accounts := threeAccounts(t, names)
	breaks := func() { control(t, server, fmt.Sprintf(`{"account_id":"acc_%s","times":-1,%s}`, broken, fault)) }
	ending := make(chan struct{})
	heard, hooks := threeWebhooks(t, refusal, works, ending)
	c := &config.Config{DataDir: t.TempDir(), NATS: config.NATS{Listen: "127.0.0.1:0"}, HTTP: config.HTTP{Listen: "127.0.0.1:0"}, Accounts: accounts, Webhooks: hooks}
	c.Defaults()
	if !later {
		breaks()
	}
	log := logrus.New()
	log.SetOutput(io.Discard)
	h, err := Start(t.Context(), c, log)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h.Run(ctx)
	}()
	defer func() { // the hanging replies end first
		close(ending)
		_ = server.Close()
		stop()
		<-done
	}()
	for _, a := range h.Accounts {
		if a.Name != broken || later {
			<-a.started
		}
	}
	if later {
		breaks()
	}
	for _, a := range h.Accounts {
		order := fmt.Sprintf(`{"id":"buy","duration_days":30,"items":[{"offer_code":"off_us_dallas","quantity":1}],"labels":{"account":%q}}`, a.Name)
		if err := publish.New(h.Queue.JetStream()).Publish(ctx, a.Name, publish.Outgoing{Kind: queue.KindOrderCreate, Data: []byte(order)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range h.Accounts {
		if a.Name == broken {
			continue
		}
		if answer, err := a.ends(ctx, "buy"); err != nil || !answer.Finished || answer.Result.State != "delivered" {
			t.Errorf("the order of %s: %+v %v", a.Name, answer, err)
		}
	}
	select {
	case <-heard:
	case <-time.After(2 * time.Minute):
		t.Errorf("the webhook of %s hears nothing", works)
	}
	written, found := context.WithCancel(ctx)
	if err := positions.Of(h.Queue.JetStream(), works).Watch(written, func(name string, _ uint64) {
		if name == "unsigned" {
			found()
		}
	}); written.Err() == nil {
		t.Fatal(err)
	}
	shown, err := WebhooksOf(ctx, c, h.Queue, works)
	if i := slices.IndexFunc(shown, func(w webhook.Status) bool { return w.Name == "unsigned" }); err != nil || i < 0 || shown[i].State != webhookRetrying || !strings.Contains(shown[i].LastError, "webhook unsigned") {
		t.Errorf("a webhook without a secret is shown as %+v, %v", shown, err)
	}
}

// ends waits for the end of a command, which may not be in the ledger yet.
func (a *account) ends(ctx context.Context, id string) (answer verbs.WaitAnswer, err error) {
	for {
		seq, _, headErr := a.Ledger().Head(ctx)
		if headErr != nil {
			return answer, headErr
		}
		if answer, err = (answers{a}).wait(ctx, verbs.WaitRequest{ID: id, TimeoutSeconds: 120}); err == nil {
			return answer, nil
		}
		select {
		case <-a.Ledger().Changed(seq):
		case <-time.After(2 * time.Minute):
			return answer, err
		}
	}
}

func threeAccounts(t *testing.T, names []string) (*sandbox.Server, map[string]*config.Account) {
	t.Helper()
	fixture, accounts := sandbox.DefaultFixture(), map[string]*config.Account{}
	for _, name := range names {
		fixture.Accounts = append(fixture.Accounts, sandbox.FixtureAccount{
			AccountID: "acc_" + name, Email: name + "@example.com", Wallet: sandbox.FixtureWallet{Currency: "USD", SandboxCents: 5000},
			Keys: []sandbox.FixtureKey{{AppID: "sbx_app_" + name, Secret: "secret-" + name}},
		})
	}
	server, err := sandbox.Start(t.Context(), sandbox.Options{Fixture: fixture})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	for _, name := range names {
		accounts[name] = &config.Account{BaseURL: server.SandboxURL(), AppID: "sbx_app_" + name, Secret: "secret-" + name, RatePerSecond: 1000, Concurrency: 1, Location: time.UTC}
	}
	return server, accounts
}

func control(t *testing.T, server *sandbox.Server, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.ControlURL()+"/faults", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close(); http.DefaultClient.CloseIdleConnections() }()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", body, response.Status)
	}
}

// threeWebhooks returns three webhooks of an account. The first endpoint refuses everything, and
// the third webhook has no secret. heard is closed when the second endpoint receives the end of the
// order.
func threeWebhooks(t *testing.T, refusal int, account string, ending <-chan struct{}) (heard chan struct{}, hooks []config.Webhook) {
	t.Helper()
	heard = make(chan struct{})
	hears := sync.OnceFunc(func() { close(heard) })
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/broken" {
			if refusal == 0 {
				select {
				case <-r.Context().Done():
				case <-ending:
				}
				return
			}
			w.WriteHeader(refusal)
			return
		}
		var event struct{ Type string }
		if json.Unmarshal(body, &event) == nil && strings.Contains(event.Type, "command.finished") {
			hears()
		}
	}))
	t.Cleanup(server.Close)
	secret := filepath.Join(t.TempDir(), "hook.secret")
	if err := os.WriteFile(secret, []byte("whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"broken", "works"} {
		hooks = append(hooks, config.Webhook{Name: name, Account: account, URL: server.URL + "/" + name, SecretFile: secret, From: "start"})
	}
	return heard, append(hooks, config.Webhook{Name: "unsigned", Account: account, URL: server.URL, SecretFile: secret + ".missing", From: "start"})
}
