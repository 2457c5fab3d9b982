// An example of every command, as its help and its manual page show it.

package cli

import "github.com/spf13/cobra"

// usageExamples are by the command's path below the program. One example is one line.
var usageExamples = map[string]string{ //nolint:gosec // files and commands, no secrets
	"account move":     "account move shop --to web-1:/var/lib/perennial",
	"account pause":    "account pause --reason 'the provider moves its data centre tonight'",
	"account resume":   "account resume --reason 'the move is done'",
	"account rotate":   "account rotate --app-id live_app_5678 --secret-file new.secret",
	"account show":     "account show -o json",
	"bench":            "bench --commands 5000 --drain",
	"cancel":           "cancel spring-fleet --reason 'ordered twice'",
	"config show":      "config show -o json",
	"conformance":      "conformance --base-url http://127.0.0.1:40001 --app-id sbx_app_demo --secret-file demo.secret",
	"dead drop":        "dead drop 17",
	"dead list":        "dead list",
	"dead requeue":     "dead requeue 17 --file corrected.json",
	"dead show":        "dead show 17",
	"demo":             "demo --keep",
	"doctor":           "doctor -o json",
	"init":             "init --base-url https://api.example.com --app-id live_app_1234 --secret-file - < api.secret",
	"ledger archive":   "ledger archive --before 2026-01-01 --to /mnt/archives",
	"ledger backup":    "ledger backup /mnt/backups/main-2026-11-24.db",
	"ledger balance":   "ledger balance -o json",
	"ledger entries":   "ledger entries --from 8123456 --limit 20",
	"ledger export":    "ledger export --format beancount --from 2026-11-01 --out november.beancount",
	"ledger rebuild":   "ledger rebuild --out main.rebuilt.db",
	"ledger reconcile": "ledger reconcile -o json",
	"ledger record":    "ledger record --kind external --cents 1200 --order ord_77 --reason 'bought on the web site'",
	"ledger restore":   "ledger restore --from /mnt/backups/main-2026-11-24.db --replace",
	"ledger statement": "ledger statement --month 2026-10 --format html --out october.html",
	"ledger verify":    "ledger verify --against-events",
	"nats-config":      "nats-config > perennial-users.conf",
	"nodes":            "nodes",
	"offers":           "offers --country US --quantity 10 --days 60",
	"order":            "order --item off_us_dallas=5 --days 30 --max-total-cents 1500 --wait",
	"orders":           "orders -o json",
	"orders get":       "orders get ord_77",
	"proxies get":      "proxies get px_us_1 --reveal",
	"proxies list":     "proxies list --within 3d --uncovered",
	"proxies retire":   "proxies retire px_us_1 --reason 'blocked at the shop'",
	"release":          "release spring-fleet --reason 'the price is agreed'",
	"renew":            "renew px_us_1 px_us_2 --due-before 72h --dry-run",
	"retry":            "retry spring-fleet --reason 'the wallet is full again'",
	"review list":      "review list",
	"review log":       "review log --from 2026-11-01 -o json",
	"review resolve":   "review resolve r-1 --charged 300 --line px_us_1 --reason 'shown in the wallet history'",
	"review show":      "review show r-1",
	"run":              "run --config perennial.yaml",
	"sandbox":          "sandbox --listen 127.0.0.1:40001 --db sandbox.db --charges charges.jsonl",
	"schedules pause":  "schedules pause keepalive --until 8h --reason 'the provider changes its prices tonight'",
	"schedules resume": "schedules resume keepalive --reason 'the prices are known'",
	"schema":           "schema command.finished",
	"status":           "status spring-fleet -o json",
	"submit":           "submit renewals.csv --rejects rejected.jsonl",
	"sweep approve":    "sweep approve 585b5417d32723aa0a878f84 --reason 'checked with accounting'",
	"sweep forecast":   "sweep forecast keepalive --days 90",
	"sweep history":    "sweep history keepalive",
	"sweep list":       "sweep list -o json",
	"sweep plan":       "sweep plan keepalive",
	"sweep run":        "sweep run keepalive --reason 'before the holidays'",
	"version":          "version -o json",
	"wallet":           "wallet -o json",
	"watch":            "watch --type command.finished --type sweep.*",
	"web login":        "web login --by ada",
	"web token":        "web token ada --role operator --accounts main",
	"webhook list":     "webhook list -o json",
	"webhook remove":   "webhook remove billing",
	"webhook replay":   "webhook replay billing --from-time 2026-11-20 --reason 'its database was restored'",
	"webhook test":     "webhook test billing",
}

// addExamples gives every command its example.
func addExamples(root *cobra.Command) {
	walk(root, func(path string, c *cobra.Command) {
		if text, ok := usageExamples[path]; ok {
			c.Example = "  perennial " + text
		}
	})
}
