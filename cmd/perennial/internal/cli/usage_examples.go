// An example of every command, for its help and manual page.

package cli

import "github.com/spf13/cobra"

// usageExamples maps a command's path, without the program's name, to its example.
var usageExamples = map[string]string{ //nolint:gosec // files and commands, no secrets
	"accounts move":        "accounts move shop --to web-1-e79eabd6",
	"accounts pause":       "accounts pause --reason 'the provider moves its data centre tonight'",
	"accounts resume":      "accounts resume --reason 'the move is done'",
	"accounts rotate":      "accounts rotate --app-id live_app_5678 --secret-file new.secret",
	"accounts show":        "accounts show -o json",
	"bench":                "bench --commands 5000 --drain",
	"cancel":               "cancel spring-fleet --reason 'ordered twice'",
	"config check":         "config check --config perennial.yaml",
	"config show":          "config show -o json",
	"conformance":          "conformance --base-url http://127.0.0.1:40001 --app-id sbx_app_demo --secret-file demo.secret",
	"dead-letters drop":    "dead-letters drop 17",
	"dead-letters list":    "dead-letters list",
	"dead-letters requeue": "dead-letters requeue 17 --file corrected.json",
	"dead-letters show":    "dead-letters show 17",
	"demo":                 "demo --keep",
	"doctor":               "doctor -o json",
	"init":                 "init --base-url https://api.example.com --app-id live_app_1234 --secret-file - < api.secret",
	"ledger archive":       "ledger archive --before 2026-01-01 --to /mnt/archives",
	"ledger backup":        "ledger backup /mnt/backups/main-2026-11-24.db",
	"ledger balance":       "ledger balance -o json",
	"ledger entries":       "ledger entries --from 8123456 --limit 20",
	"ledger export":        "ledger export --format beancount --from 2026-11-01 --out november.beancount",
	"ledger rebuild":       "ledger rebuild --out main.rebuilt.db",
	"ledger reconcile":     "ledger reconcile -o json",
	"ledger record":        "ledger record --kind external --cents 1200 --order ord_77 --reason 'bought on the web site'",
	"ledger restore":       "ledger restore --from /mnt/backups/main-2026-11-24.db --replace",
	"ledger statement":     "ledger statement --month 2026-10 --format html --out october.html",
	"ledger verify":        "ledger verify --against-events",
	"nats-config":          "nats-config > perennial-users.conf",
	"runners list":         "runners list",
	"offers list":          "offers list --country US --quantity 10 --days 60",
	"operations list":      "operations list --state review",
	"operations show":      "operations show spring-fleet -o json",
	"accounts list":        "accounts list",
	"schedules show":       "schedules show keepalive",
	"order":                "order off_us_dallas=5 --days 30 --max 15.00 --wait",
	"orders list":          "orders list -o json",
	"orders get":           "orders get ord_77",
	"proxies get":          "proxies get px_us_1 --reveal",
	"proxies list":         "proxies list --within 3d --uncovered",
	"proxies retire":       "proxies retire px_us_1 --reason 'blocked at the shop'",
	"release":              "release spring-fleet --reason 'the price is agreed'",
	"renew":                "renew px_us_1 px_us_2 --due-before 72h --dry-run",
	"retry":                "retry spring-fleet --reason 'the wallet is full again'",
	"reviews list":         "reviews list",
	"audit":                "audit --from 2026-11-01",
	"audit list":           "audit list --from 2026-11-01 -o json",
	"reviews correct":      "reviews correct r-1/0001 --reason 'the invoice shows no charge'",
	"reviews resolve":      "reviews resolve r-1 --charged 3.00 --line px_us_1 --reason 'shown in the wallet history'",
	"reviews show":         "reviews show r-1",
	"run":                  "run --config perennial.yaml",
	"sandbox":              "sandbox --listen 127.0.0.1:40001 --db sandbox.db --charges charges.jsonl",
	"schedules pause":      "schedules pause keepalive --until 8h --reason 'the provider changes its prices tonight'",
	"schedules resume":     "schedules resume keepalive --reason 'the prices are known'",
	"schema":               "schema command.finished",
	"status":               "status spring-fleet -o json",
	"submit":               "submit renewals.csv --rejects rejected.jsonl",
	"schedules decline":    "schedules decline 585b5417d32723aa0a878f84 --reason 'too dear'",
	"schedules approve":    "schedules approve 585b5417d32723aa0a878f84 --reason 'checked with accounting'",
	"schedules forecast":   "schedules forecast keepalive --days 90",
	"schedules history":    "schedules history keepalive",
	"schedules list":       "schedules list -o json",
	"schedules plan":       "schedules plan keepalive",
	"schedules run":        "schedules run keepalive --reason 'before the holidays'",
	"version":              "version -o json",
	"wallet show":          "wallet show -o json",
	"events":               "events --type command.finished --type sweep.*",
	"web login":            "web login --by ada",
	"web token":            "web token ada --role operator --accounts main",
	"webhooks list":        "webhooks list -o json",
	"webhooks remove":      "webhooks remove billing",
	"webhooks replay":      "webhooks replay billing --from-time 2026-11-20 --reason 'its database was restored'",
	"webhooks test":        "webhooks test billing",
}

// addExamples sets the example of every command.
func addExamples(root *cobra.Command) {
	walk(root, func(path string, c *cobra.Command) {
		if text, ok := usageExamples[path]; ok {
			c.Example = "  perennial " + text
		}
	})
}
