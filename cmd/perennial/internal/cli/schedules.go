// `perennial schedules pause` and `resume`.

package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/verbs"
)

func (a *app) schedulesPause() *cobra.Command {
	var q verbs.SchedulePauseRequest
	var until string
	c := &cobra.Command{
		Use: "pause SCHEDULE", Short: "Pause a schedule", Args: cobra.ExactArgs(1),
		Long: `Fire no slot of a schedule until it is resumed, or until an instant.

What it should have renewed meanwhile may expire: proxy.expiring is still published.
Commands that it has published continue (see cancel), and schedules run still sweeps. When
the pause ends, one sweep at once serves every slot that passed.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Schedule = args[0]
			if until != "" {
				text, err := instantOrSpan("until", until, time.Now())
				if err != nil {
					return err
				}
				at, err := time.Parse(time.RFC3339, text)
				if err != nil {
					return err
				}
				q.Until = &at
			}
			return sendChange(cmd.Context(), a, verbs.SchedulePause, q, fmt.Sprintf("paused schedule %s %s: `perennial schedules resume %[1]s` resumes it", q.Schedule, pausedUntil(q.Until)))
		},
	}
	c.Flags().StringVar(&until, "until", "", "end by itself: an instant, or a time from now such as 8h (default: until it is resumed)")
	signed(c, &q.By, &q.Reason, "who asks for it", "paused on the command line")
	return c
}

func (a *app) schedulesResume() *cobra.Command {
	var q verbs.SchedulePauseRequest
	c := &cobra.Command{
		Use: "resume SCHEDULE", Short: "Resume a schedule and catch up missed runs", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Schedule = args[0]
			return sendChange(cmd.Context(), a, verbs.ScheduleResume, q, "resumed schedule "+q.Schedule)
		},
	}
	signed(c, &q.By, &q.Reason, "who asks for it", "resumed on the command line")
	return c
}

func pausedUntil(until *time.Time) string {
	if until == nil {
		return "until it is resumed"
	}
	return "until " + until.Format(time.RFC3339)
}
