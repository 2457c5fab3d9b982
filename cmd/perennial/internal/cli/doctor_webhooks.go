// The doctor's look at webhooks.

package cli

import "perennial/cmd/perennial/internal/webhook"

// webhooks reads each webhook's secret, without which `run` does not start. It sends
// nothing.
func (d *doctor) webhooks() {
	for _, w := range d.config.WebhooksOf(d.account) {
		check := "webhook " + w.Name
		if _, err := d.config.WebhookSecrets(w); err != nil {
			d.bad(check, err, "give it a secret: `echo whsec_$(openssl rand -base64 32)` makes one")
			continue
		}
		d.ok(check, "%s; its secret can be read, and `perennial webhooks test %s` tries it", webhook.Host(w.URL), w.Name)
	}
}
