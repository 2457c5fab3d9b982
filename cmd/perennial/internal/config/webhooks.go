package config

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"perennial/cmd/perennial/internal/webhook"
	"perennial/ledger/fact"
	"perennial/upstream"
)

// Webhook configures an endpoint that receives an account's events.
type Webhook struct {
	Name        string        `yaml:"name" absent:"required" doc:"1 to 32 of a-z, 0-9 and -"`
	Account     string        `yaml:"account" default:"main" doc:"the account whose events the webhook gets"`
	URL         string        `yaml:"url" absent:"required" doc:"address of the receiver; https, or http to this machine only. The path and query, which may contain a token, are shown nowhere"`
	SecretFile  string        `yaml:"secret_file" doc:"file with the secret, whsec_…; mode as for accounts.NAME.secret_file; or the variable PERENNIAL_WEBHOOK_NAME_SECRET or a systemd credential webhook-NAME.secret"`
	Events      []string      `yaml:"events" absent:"all" doc:"types of events to deliver, such as command.finished or order.*"`
	Concurrency int           `yaml:"concurrency" default:"4" min:"1" max:"64" doc:"concurrent requests to the receiver"`
	Timeout     time.Duration `yaml:"timeout" default:"10s" doc:"time-out of one attempt, at most 1m"`
	From        string        `yaml:"from" default:"now" doc:"where a new webhook begins: now or start"`
}

var webhookName = regexp.MustCompile(`^[a-z0-9-]{1,32}$`)

const webhookTimeoutMost = time.Minute

func (c *Config) validateWebhooks() (all []error) {
	names := map[string]bool{}
	for i, w := range c.Webhooks {
		err := w.validate()
		switch {
		case err != nil:
		case names[w.Name]:
			err = fmt.Errorf("name is %q, which appears twice", w.Name)
		case c.Accounts["webhook-"+w.Name] != nil:
			err = fmt.Errorf("name is %q, and the account webhook-%s has its secret under the same name: choose another one", w.Name, w.Name)
		}
		if err != nil {
			all = append(all, fmt.Errorf("webhooks[%d].%w", i, err))
		}
		names[w.Name] = true
	}
	return all
}

// validate returns an error with the first invalid field and the fix. It never quotes the
// address.
func (w *Webhook) validate() error {
	if !webhookName.MatchString(w.Name) {
		return fmt.Errorf("name is %.80q: it must be 1 to 32 of a-z, 0-9 and -", w.Name)
	}
	u, err := url.Parse(w.URL)
	switch {
	case err != nil || u.Hostname() == "":
		return errors.New("url is no address: it is one such as https://example.com/hooks")
	case u.User != nil || u.Fragment != "":
		return errors.New("url has a user or a fragment in it: receivers know Perennial by the signature")
	case !upstream.HasPort(u):
		return fmt.Errorf("url has port %.20q: a port is 1 to 65535", u.Port())
	case !upstream.Private(u):
		return errors.New("url is not https: http is accepted to this machine itself alone")
	case w.Timeout <= 0 || w.Timeout > webhookTimeoutMost:
		return fmt.Errorf("timeout must be more than 0 and at most %s", webhookTimeoutMost)
	case w.From != webhook.FromNow && w.From != webhook.FromStart:
		return fmt.Errorf("from is %.80q: it must be %s or %s", w.From, webhook.FromNow, webhook.FromStart)
	}
	for i, pattern := range w.Events {
		if !slices.ContainsFunc(eventTypes(), func(t string) bool { return matchesType(pattern, t) }) {
			return fmt.Errorf("events[%d] is %.80q, and no event has such a type%s: it is one such as order.delivered, or order.* for all of them", i, pattern, suggestType(pattern))
		}
	}
	return nil
}

func suggestType(word string) string {
	const within = 4
	if near := Nearest(word, eventTypes(), within); near != "" {
		return fmt.Sprintf(" (did you mean %s?)", near)
	}
	return ""
}

func eventTypes() []string { return slices.Sorted(maps.Keys(fact.Types())) }

// matchesType reports whether a pattern equals a type, or is a prefix of the type followed by
// *.
func matchesType(pattern, eventType string) bool {
	if prefix, wild := strings.CutSuffix(pattern, "*"); wild && (prefix == "" || strings.HasSuffix(prefix, ".")) {
		return strings.HasPrefix(eventType, prefix)
	}
	return pattern == eventType
}

// Wants reports whether the webhook receives events of a type, such as "order.delivered".
func (w *Webhook) Wants(eventType string) bool {
	return len(w.Events) == 0 || slices.ContainsFunc(w.Events, func(pattern string) bool { return matchesType(pattern, eventType) })
}

// WebhookVariable returns the name of the environment variable for a webhook's secret.
func WebhookVariable(name string) string { return SecretVariable("webhook-" + name) }

// WebhookSecrets reads a webhook's secrets from its environment variable, a systemd credential,
// or its file.
func (c *Config) WebhookSecrets(w Webhook) (webhook.Secrets, error) {
	return readFrom(c, secretSources{"webhook " + w.Name, WebhookVariable(w.Name), "webhook-" + w.Name + ".secret", w.SecretFile}, webhook.ParseSecrets)
}

// WebhooksOf returns the webhooks of one account.
func (c *Config) WebhooksOf(account string) (own []Webhook) {
	for _, w := range c.Webhooks {
		if w.Account == account {
			own = append(own, w)
		}
	}
	return own
}

// Webhook returns the webhook with the given name.
func (c *Config) Webhook(name string) (w Webhook, ok bool) {
	i := slices.IndexFunc(c.Webhooks, func(w Webhook) bool { return w.Name == name })
	if i < 0 {
		return w, false
	}
	return c.Webhooks[i], true
}

// Endpoint returns a webhook's endpoint, with its own transport.
func (c *Config) Endpoint(w Webhook) (webhook.Endpoint, error) {
	secrets, err := c.WebhookSecrets(w)
	if err != nil {
		return webhook.Endpoint{}, err
	}
	return webhook.Endpoint{
		URL: w.URL, Secrets: secrets, Timeout: w.Timeout, Transport: webhook.NewTransport(w.Concurrency), Clock: time.Now, UserAgent: "perennial/" + Version, Certificate: receiverCertificate,
	}, nil
}

// receiverCertificate explains a certificate error of the receiver. It returns "" for any other
// error.
func receiverCertificate(err error, now time.Time) string {
	says, do := upstream.CertificateFault(err, "the receiver's", "if its authority is meant to be private, have this machine's system trust it", now)
	if says == "" {
		return ""
	}
	return says + ": " + do
}
