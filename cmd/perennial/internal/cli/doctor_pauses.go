// The doctor's check of what is paused, and what ends each pause.

package cli

import (
	"context"

	"perennial/cmd/perennial/internal/daemon"
	"perennial/jobs/decide"
	"perennial/ledger"
	"perennial/upstream"
)

// endsPause is what ends a pause, by its cause (docs/operations.md#the-account-is-paused).
var endsPause = map[string]string{
	string(upstream.CodeInvalidSignature):       "mend app_id or the secret, then start `perennial run` again",
	string(upstream.CodeAPIKeyRevoked):          "enable the key at the provider, or `perennial accounts rotate`, then start `perennial run` again",
	string(upstream.CodeInsufficientScope):      "give the key the permission at the provider, or ask why the account may not write; it ends by itself then",
	string(upstream.CodeStaleTimestamp):         "set this machine's clock by NTP; it ends by itself then",
	decide.CauseClock:                           "set this machine's clock by NTP; it ends by itself then",
	string(upstream.CodeIdempotencyKeyRequired): "find the gateway or proxy that removes headers, then `perennial accounts resume --reason TEXT`",
	decide.CauseFirewall:                        "mend base_url, or what is between here and the provider; it ends by itself then",
	ledger.CauseRestored:                        "compare what `perennial accounts show` names with the provider's lists before `perennial accounts resume --reason TEXT` (docs/operations.md#restore)",
	decide.CausePerson:                          "`perennial accounts resume --reason TEXT` when what it was paused for is done",
}

// pauses says what the ledger holds as paused. A wait that the provider asked for ends by
// itself and is a warning.
func (d *doctor) pauses(ctx context.Context, l *ledger.Ledger) {
	all, err := l.Pauses(ctx)
	if err != nil {
		d.bad("paused", err, "run `perennial ledger verify`")
		return
	}
	for _, p := range all {
		seen := "paused (" + p.Scope + ", " + p.Cause + ") since " + stamp(&p.Since) + ": " + printable(p.Detail) + daemon.UntilText(p)
		if p.Cause == decide.CauseThrottled {
			d.warn("paused", seen, "nothing: it ends by itself. Often: lower rate_per_second")
			continue
		}
		do := endsPause[p.Cause]
		if do == "" {
			do = "see `perennial accounts show`"
		}
		d.bad("paused", seen, do)
	}
}
