// This file accepts or refuses parsed commands. The decision and its facts and operations
// are written in one ledger transaction.

package jobs

import (
	"errors"
	"fmt"

	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/tables"
)

// accept decides whether a command is new, a duplicate, a conflict or refused, and writes
// the facts. It runs inside the writer's transaction.
func (in *intaker) accept(tx *ledger.Tx, a *arrival) error {
	a.forget() // Write may run this function twice
	if a.hash == "" {
		return errors.New("a command came without its content's hash, so it cannot be compared with others")
	}
	known, err := tx.Known(a.id())
	if err != nil {
		return err
	}
	if known.AcceptedHash != "" {
		return acceptAgain(tx, a, known)
	}
	if known.RefusedHash == a.hash {
		a.absorbed = true // refused before, and the ledger has the fact
		return nil
	}
	if a.invalid != nil {
		return a.refuse(tx, fact.RejectedInvalid, a.invalid.Reason)
	}
	if a.cmd.NotAfter != nil && tx.Now().After(*a.cmd.NotAfter) {
		return a.refuse(tx, "not_after", "not_after had passed when the command came: nothing was sent")
	}
	return in.acceptNew(tx, a)
}

func (a *arrival) refuse(tx *ledger.Tx, code, reason string) error {
	return a.answerOnce(tx, a.rejected(code, reason), reason)
}

// answerOnce records a refusal or a conflict, once per content. The number of such facts per
// command id is limited, so that a producer cannot fill the journal under one id. Content
// over the limit becomes a dead letter.
func (a *arrival) answerOnce(tx *ledger.Tx, answer fact.Fact, reason string) error {
	before, contents, err := tx.RefusedContent(a.id(), a.hash)
	if err != nil || before {
		a.absorbed = true
		return err
	}
	if contents >= ledger.MaxRefusals {
		a.dead = fmt.Sprintf("%d other contents under the command's id were refused before: choose another id (%s)", contents, reason)
		return nil
	}
	return tx.Append(answer)
}

// ref returns the reference for facts about the command.
func (a *arrival) ref() fact.Ref {
	if a.invalid != nil {
		return fact.Ref{CommandID: a.invalid.ID, Labels: a.invalid.Labels, Trace: a.trace}
	}
	return fact.Ref{CommandID: a.cmd.ID, Labels: a.cmd.Labels, Trace: a.trace}
}

func (a *arrival) rejected(code, reason string) fact.CommandRejected {
	return fact.CommandRejected{
		Ref: a.ref(), ContentHash: a.hash, Code: code, Reason: fact.Bounded(reason), ReplyTo: a.inbox, StreamSequence: a.msg.StreamSequence,
	}
}

// acceptAgain handles a command whose id was accepted before. The same content is a
// duplicate; other content is a conflict, and the accepted content stays in force.
func acceptAgain(tx *ledger.Tx, a *arrival, known tables.Known) error {
	if known.Kind == a.kind && known.AcceptedHash == a.hash {
		a.absorbed = true
		return nil
	}
	reason := "the id was accepted before with other content, which remains: choose another id"
	if a.invalid != nil {
		reason += " (and this content would be refused: " + a.invalid.Reason + ")"
	}
	a.conflict = reason
	return a.answerOnce(tx, fact.CommandConflict{
		Ref: a.ref(), ContentHash: a.hash, AcceptedHash: known.AcceptedHash, Reason: fact.Bounded(reason), StreamSequence: a.msg.StreamSequence,
	}, reason)
}

func (in *intaker) acceptNew(tx *ledger.Tx, a *arrival) error {
	ids, skipped, err := unclaimed(tx, a.cmd)
	if err != nil {
		return err
	}
	if a.kind.OfProxies() && len(ids) == 0 {
		return a.refuse(tx, "claimed", "every proxy of it is being renewed, or in review, by another command: "+skipped[0].Reason)
	}
	planned := a.cmd.Operations(in.binding(), ids, in.loader.careful(a.cmd))
	p, atOnce, err := startsNow(tx, a, planned)
	if err != nil {
		return err
	}
	made, err := tx.Accept(fact.CommandAccepted{
		Ref: a.ref(), Kind: a.kind, ContentHash: a.hash, Content: a.content,
		DurationDays: a.cmd.DurationDays, Operations: planned, ReplyTo: a.inbox, StreamSequence: a.msg.StreamSequence,
	}, fact.Skipped(a.ref(), skipped, "other operations hold them")...)
	if err != nil {
		return err
	}
	a.jobs = in.jobsOf(a.cmd, planned, made)
	if atOnce {
		a.jobs[0], err = in.attempts.intend(tx, a.jobs[0], p)
		a.started = err == nil
	}
	return err
}

// startsNow reports whether the intent can be committed together with the acceptance. This
// requires that a.token is set, that the command has one operation, and that the expiry of
// each proxy is known. If so, p has the proxies and their expiries.
func startsNow(tx *ledger.Tx, a *arrival, planned []fact.Planned) (p checked, atOnce bool, err error) {
	if !a.token || len(planned) != 1 {
		return p, false, nil
	}
	p.ids = planned[0].ProxyIDs
	p.observed, atOnce, err = seenNow(tx, p.ids)
	return p, atOnce, err
}

// unclaimed divides a command's proxies: ids may be renewed, and skipped are reserved by
// other operations.
func unclaimed(tx *ledger.Tx, c command.Command) (ids []string, skipped []fact.SkippedProxy, err error) {
	for _, id := range c.ProxyIDs {
		holder, err := tx.Claimant(id)
		if err != nil {
			return nil, nil, err
		}
		if holder == "" {
			ids = append(ids, id)
			continue
		}
		skipped = append(skipped, fact.SkippedProxy{ProxyID: id, Code: fact.SkipClaimed, Reason: "operation " + holder + " holds it"})
	}
	return ids, skipped, nil
}

// careful reports whether the operations of a command run one at a time. They do if a limit
// applies, so that each decision includes the cost of the earlier operations.
func (q *loader) careful(c command.Command) bool { return c.MaxTotalCents > 0 || q.DailyLimitCents > 0 }

// jobsOf returns the jobs that may start now. For a careful command this is only the first
// job.
func (in *intaker) jobsOf(c command.Command, planned []fact.Planned, made []fact.Operation) []*job {
	if len(made) > bulkOperations && c.Priority == command.UrgencyNormal {
		c.Priority = command.UrgencyBulk
	}
	if in.loader.careful(c) {
		made = made[:1]
	}
	jobs := make([]*job, 0, len(made))
	for i, o := range made {
		jobs = append(jobs, in.loader.job(o, c, planned[i].ProxyIDs))
	}
	return jobs
}

// takeTokens takes a rate token for each command whose intent may be committed with its
// acceptance. Such a command needs no read first, and no pause blocks it. takeTokens runs
// before Write, because Write may run its function twice or roll it back.
func (in *intaker) takeTokens(arrivals []*arrival) {
	for _, a := range arrivals {
		j := job{lane: a.place().lane, cmd: a.cmd}
		a.token = a.invalid == nil && len(a.cmd.ProxyIDs) <= command.ChunkSize && !in.loader.careful(a.cmd) && !a.cmd.Guarded() &&
			in.checker.cannotBuild(&j) == nil && !in.pauses.blocked(j.lane) && in.gate.TryPass()
	}
}

// giveTokensBack returns the unused tokens.
func (in *intaker) giveTokensBack(arrivals []*arrival) {
	for _, a := range arrivals {
		if a.token && !a.started {
			in.gate.GiveBack()
		}
		a.token = false
	}
}
