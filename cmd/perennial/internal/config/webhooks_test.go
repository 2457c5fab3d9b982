package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const webhookAccounts = "accounts:\n  main: {base_url: 'http://127.0.0.1:1', app_id: sbx_app_a}\n  webhook-shop: {base_url: 'http://127.0.0.1:1', app_id: sbx_app_b}\n"

const webhookSecret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

// The error has the line, but not the URL, which may contain a token.
func TestMistakesInAWebhookAreNamed(t *testing.T) {
	for settings, says := range map[string]string{
		"name: Billing, url: 'https://example.com'":           `line 5: webhooks[0].name is "Billing"`,
		"url: 'https://example.com'":                          "webhooks[0].name is \"\"",
		"name: shop, url: 'https://example.com'":              "the account webhook-shop has its secret under the same name",
		"name: b, url: 'https://example.com', account: other": `webhooks[0].account is "other", which is not configured`,
		"name: b": "webhooks[0].url is no address",
		"name: b, url: 'ftp://example.com/hunter2'":                                "webhooks[0].url is not https",
		"name: b, url: 'http://127.0.0.1:99999999/hunter2'":                        "webhooks[0].url has port \"99999999\"",
		"name: b, url: 'http://example.com/hunter2'":                               "webhooks[0].url is not https",
		"name: b, url: 'https://ada:hunter2@example.com/'":                         "webhooks[0].url has a user",
		"name: b, url: 'https://example.com/#hunter2'":                             "webhooks[0].url has a user or a fragment",
		"name: b, url: 'https://example.com/%hunter2'":                             "webhooks[0].url is no address",
		"name: b, url: 'https://example.com', events: [order.delivered, order.xx]": `events[1] is "order.xx", and no event has such a type`,
		"name: b, url: 'https://example.com', events: [order.deliverd]":            "did you mean order.delivered?",
		"name: b, url: 'https://example.com', events: ['orders.*']":                `events[0] is "orders.*"`,
		"name: b, url: 'https://example.com', events: ['ord*']":                    `events[0] is "ord*"`,
		"name: b, url: 'https://example.com', concurrency: 65":                     "concurrency must be 1 to 64",
		"name: b, url: 'https://example.com', timeout: 2m":                         "timeout must be more than 0 and at most 1m0s",
		"name: b, url: 'https://example.com', timeout: 10":                         "10 has no unit",
		"name: b, url: 'https://example.com', from: begin":                         `from is "begin": it must be now or start`,
		"name: b, url: 'https://example.com', secret: hunter2":                     `"secret" is no key of the configuration`,
		"name: b, url: 'https://example.com'}\n  - {name: b, url: 'https://a.b'":   `line 6: webhooks[1].name is "b", which appears twice`,
	} {
		_, err := Load(written(t, webhookAccounts+"webhooks:\n  - {"+settings+"}\n"))
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hunter2") || !isInvalid(err) {
			t.Errorf("%s: %v", settings, err)
		}
	}
}

// A webhook without events gets all types.
func TestAWebhookHasDefaultsAndGetsItsTypes(t *testing.T) {
	c, err := Load(written(t, webhookAccounts+`webhooks:
  - {name: all, url: "http://127.0.0.1:1/hooks?token=hunter2"}
  - {name: some, url: "https://example.com", account: webhook-shop, events: [command.finished, "order.*"], concurrency: 2, timeout: 1s, from: start}
  - {name: star, url: "https://example.com", events: ["*"]}
`))
	if err != nil {
		t.Fatal(err)
	}
	all, _ := c.Webhook("all")
	some, _ := c.Webhook("some")
	star, _ := c.Webhook("star")
	if all.Account != "main" || all.Concurrency != 4 || all.Timeout != 10*time.Second || all.From != "now" || len(c.WebhooksOf("main")) != 2 {
		t.Errorf("%+v", all)
	}
	if _, ok := c.Webhook("other"); ok || some.Account != "webhook-shop" || some.Concurrency != 2 || some.Timeout != time.Second || some.From != "start" {
		t.Errorf("%+v", some)
	}
	for eventType, want := range map[string]bool{"command.finished": true, "order.delivered": true, "command.accepted": false, "renewal.completed": false} {
		if some.Wants(eventType) != want || !all.Wants(eventType) || !star.Wants(eventType) {
			t.Errorf("%s", eventType)
		}
	}
	for _, s := range c.Settings() {
		if strings.Contains(fmt.Sprint(s), "hunter2") {
			t.Errorf("%+v", s)
		}
	}
}

// The secret comes from the environment, a credential, or a file that no other user may read.
func TestAWebhooksSecretIsReadAsAnAccountsIs(t *testing.T) {
	path := written(t, webhookAccounts+"webhooks:\n  - {name: b-1, url: 'https://example.com', secret_file: hook.secret}\n")
	c, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	w, _ := c.Webhook("b-1")
	if _, err := c.Endpoint(w); err == nil || !isInvalid(err) {
		t.Errorf("without the file: %v", err)
	}
	file, credentials := filepath.Join(filepath.Dir(path), "hook.secret"), t.TempDir()
	write := func(name string, mode os.FileMode, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write(file, 0o644, webhookSecret)
	if _, err := c.Endpoint(w); err == nil || !strings.Contains(err.Error(), "may be read by others") {
		t.Errorf("a file for all: %v", err)
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	write(file, 0o600, "\ufeff"+webhookSecret) // trap 76: an editor's byte order mark
	if e, err := c.Endpoint(w); err != nil || strings.Contains(fmt.Sprintf("%+v", e.Secrets), webhookSecret[6:]) {
		t.Errorf("%v", err)
	}
	write(filepath.Join(credentials, "webhook-b-1.secret"), 0o600, "hunter2")
	t.Setenv("CREDENTIALS_DIRECTORY", credentials)
	if _, err := c.Endpoint(w); err == nil || !strings.Contains(err.Error(), "webhook-b-1.secret") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a credential comes before the file: %v", err)
	}
	t.Setenv("PERENNIAL_WEBHOOK_B_1_SECRET", webhookSecret+" "+webhookSecret)
	if _, err := c.Endpoint(w); err != nil {
		t.Errorf("two secrets in the environment: %v", err)
	}
}

// The text differs only in how to make the authority known.
func TestAReceiversCertificateIsSaidInTheProvidersWords(t *testing.T) {
	ended := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for says, err := range map[string]error{
		"the receiver's certificate expired at 2026-11-01T00:00:00Z: have it renewed": x509.CertificateInvalidError{Cert: &x509.Certificate{NotAfter: ended}, Reason: x509.Expired},
		"have this machine's system trust it":                                         x509.UnknownAuthorityError{},
	} {
		if text := receiverCertificate(&tls.CertificateVerificationError{Err: err}, ended.Add(time.Hour)); !strings.Contains(text, says) || strings.Contains(text, "ca_file") {
			t.Errorf("%q does not say %q", text, says)
		}
	}
}
