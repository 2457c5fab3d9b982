package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/spf13/cobra"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs/command"
	"perennial/ledger/fact"
	"perennial/queue"
	"perennial/queue/letters"
	"perennial/queue/publish"
)

func (a operateCommands) deadLettersCommand() *cobra.Command {
	return noun(&cobra.Command{Use: "dead-letters", Aliases: []string{"dead-letter", "dead", "dlq"}, Short: "List, show, requeue and drop messages that could not be read as commands"},
		a.deadList(), a.deadShow(), a.deadRequeue(), a.deadDrop())
}

// letterLine is a dead letter as -o json prints it. Data that is not text is quoted as in Go.
type letterLine struct {
	Seq         uint64    `json:"seq"`
	PublishedAt time.Time `json:"published_at"`
	Subject     string    `json:"subject"`
	Code        string    `json:"code,omitempty"`
	Reason      string    `json:"reason"`
	Data        string    `json:"data"`
}

func lineOf(l letters.Letter) letterLine {
	return letterLine{Seq: l.Seq, PublishedAt: l.Dead.Published.UTC(), Subject: l.Dead.Subject, Code: l.Dead.Code, Reason: l.Dead.Reason, Data: l.Dead.Text()}
}

func (a operateCommands) deadList() *cobra.Command {
	limit := math.MaxInt
	c := newCommand("list", "List dead letters with the reason", func(ctx context.Context, _ []string) error {
		r, err := a.connect()
		if err != nil {
			return err
		}
		defer r.Close()
		list, left := a.listing("no dead letters; a refused command with an ID is in `perennial operations list --state rejected`", "SEQ", "PUBLISHED", "SUBJECT", "CODE", "REASON"), limit
		for l, err := range letters.Of(r.JetStream(), r.account).After(ctx, 0) {
			if err != nil {
				return err
			}
			line := lineOf(l)
			list.add("", line, strconv.FormatUint(l.Seq, 10), stamp(&line.PublishedAt), line.Subject, line.Code, line.Reason)
			if left--; left == 0 {
				break
			}
		}
		return list.end(nil)
	})
	c.Flags().VarP(atLeastOne{&limit}, "limit", "n", "how many, oldest first (default: all)")
	return c
}

func (a operateCommands) withLetter(do func(ctx context.Context, r *remote, l letters.Letter) error) action {
	return func(ctx context.Context, args []string) error {
		seq, err := strconv.ParseUint(args[0], 10, 64)
		if err != nil {
			return usage("%q is no sequence of a dead letter: `perennial dead-letters list` shows them", args[0])
		}
		r, err := a.connect()
		if err != nil {
			return err
		}
		defer r.Close()
		l, err := letters.Of(r.JetStream(), r.account).Read(ctx, seq)
		if err != nil {
			return err
		}
		return do(ctx, r, l)
	}
}

func (a operateCommands) deadShow() *cobra.Command {
	return newCommand("show SEQ", "Show a dead letter in full", a.withLetter(func(_ context.Context, _ *remote, l letters.Letter) error {
		line := lineOf(l)
		return a.say(line, "%s\n%s\n%s\n\n%s\n", line.Subject, stamp(&line.PublishedAt), line.Reason, fact.Printable(line.Data, "\n\t"))
	}))
}

func (a operateCommands) deadRequeue() *cobra.Command {
	var file string
	var q verbs.DeadRequest
	c := newCommand("requeue SEQ", "Requeue a dead letter, unchanged or from --file", a.withLetter(func(ctx context.Context, r *remote, l letters.Letter) error {
		data, err := a.corrected(ctx, file, l.Dead.Data)
		if err != nil {
			return err
		}
		kind := queue.KindOf(r.account, l.Dead.Subject)
		if _, err := contentHash(kind, data); err != nil {
			return usage("it would be refused again, so nothing was published: %w\ncorrect it, and use --file FILE", err)
		}
		if q.Seq = l.Seq; file == "" {
			if _, answered, err := askIfRunning(ctx, r, verbs.DeadRequeue, q); answered {
				return a.printLetter("requeued", l, err)
			}
		}
		noted := q
		noted.ContentHash = command.MessageHash(data)
		if _, _, err := askIfRunning(ctx, r, verbs.DeadRequeue, noted); err != nil {
			return fmt.Errorf("nothing was published: %w", err)
		}
		if err := publish.New(r.JetStream()).Publish(ctx, r.account, publish.Outgoing{Kind: kind, Data: data}); err != nil {
			return fmt.Errorf("publish it again: %w", err)
		}
		if file != "" {
			q.Reason = "a corrected command replaces it: " + q.Reason
		}
		// The stream has the command now. If dropping the letter fails, a second requeue
		// publishes the command again. That has no effect, because id and content are the
		// same.
		return a.printLetter("requeued", l, dropLetter(ctx, r, q))
	}))
	c.Flags().StringVar(&file, "file", "", "publish this file's content instead; - is the standard input")
	return signed(c, &q.By, &q.Reason, askedFor)
}

func (a operateCommands) corrected(ctx context.Context, file string, data []byte) ([]byte, error) {
	switch file {
	case "":
		return data, nil
	case "-":
		in := interruptible(ctx, os.Stdin)
		defer func() { _ = in.Close() }()
		return io.ReadAll(io.LimitReader(in, queue.MaxCommandBytes+1))
	}
	text, err := readNamed(ctx, file, queue.MaxCommandBytes)
	if err != nil {
		return nil, usage("the corrected command cannot be read: %w", err)
	}
	return text, nil
}

func (a operateCommands) deadDrop() *cobra.Command {
	var q verbs.DeadRequest
	var which letterFilter
	c := newCommand("drop [SEQ]", "Delete one dead letter, or all that match the flags", func(ctx context.Context, args []string) error {
		if err := which.check(args); err != nil {
			return err
		}
		if len(args) == 0 {
			return a.dropLetters(ctx, which, q)
		}
		return a.withLetter(func(ctx context.Context, r *remote, l letters.Letter) error {
			q.Seq = l.Seq
			return a.printLetter("deleted", l, dropLetter(ctx, r, q))
		})(ctx, args)
	})
	c.Aliases = []string{"delete"}
	f := c.Flags()
	f.BoolVar(&which.all, "all", false, "every dead letter")
	f.StringVar(&which.beforeText, "before", "", "dead letters published before this day, such as 2026-11-01 (UTC), or before this time")
	f.StringVar(&which.code, "code", "", "dead letters with this code: unreadable or refused")
	return signed(c, &q.By, &q.Reason, askedFor)
}

type letterFilter struct {
	all        bool
	beforeText string
	before     time.Time
	code       string
}

// check parses --before. It returns an error if the selection is empty or contradictory.
func (w *letterFilter) check(args []string) (err error) {
	some := w.beforeText != "" || w.code != ""
	chosen := 0
	for _, way := range []bool{len(args) > 0, w.all, some} {
		if way {
			chosen++
		}
	}
	if chosen != 1 {
		return usage("say which to drop: SEQ, --all, or --before and --code")
	}
	if w.code != "" && w.code != letters.CodeUnreadable && w.code != letters.CodeRefused {
		return usage("--code is %q: use %s or %s", w.code, letters.CodeUnreadable, letters.CodeRefused)
	}
	w.before, err = dayOrInstant("--before", w.beforeText)
	return err
}

func (w *letterFilter) matches(d letters.Dead) bool {
	return (w.code == "" || d.Code == w.code) && (w.before.IsZero() || d.Published.Before(w.before))
}

// dropLetters drops the selected letters, oldest first. Each is dropped separately, so after
// a crash a second call drops the rest.
func (a operateCommands) dropLetters(ctx context.Context, which letterFilter, q verbs.DeadRequest) error {
	r, err := a.connect()
	if err != nil {
		return err
	}
	defer r.Close()
	var done verbs.Changed
	for l, err := range letters.Of(r.JetStream(), r.account).After(ctx, 0) {
		if err == nil && !which.matches(l.Dead) {
			continue
		}
		if q.Seq = l.Seq; err == nil {
			err = dropLetter(ctx, r, q)
		}
		if _, gone := errors.AsType[*notFoundError](err); gone {
			continue // another command has dropped this letter
		}
		if err != nil {
			return fmt.Errorf("%d dead letters were dropped, and then: %w\ncall this again: it drops the rest", done.Changed, err)
		}
		done.Changed++
	}
	return a.printChange(done, "dropped "+english.Plural(done.Changed, "dead letter", ""), nil)
}

func (a operateCommands) printLetter(done string, l letters.Letter, err error) error {
	if err != nil {
		return err
	}
	return a.say(verbs.Changed{Changed: 1}, "%s: dead letter %d, %s\n", done, l.Seq, printable(l.Dead.Subject))
}

// dropLetter asks the runner to drop a letter. If no runner answers, it drops the letter
// itself, and no fact records the change.
func dropLetter(ctx context.Context, r *remote, q verbs.DeadRequest) error {
	if _, answered, err := askIfRunning(ctx, r, verbs.DeadDrop, q); answered {
		return err
	}
	err := letters.Of(r.JetStream(), r.account).Drop(ctx, q.Seq)
	if errors.Is(err, letters.ErrNone) {
		return nil // another command has dropped this letter
	}
	return err
}
