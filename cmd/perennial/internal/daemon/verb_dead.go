// The verbs `dead-requeue` and `dead-drop`: what a person decides on a command that could
// not be read.

package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"perennial/cmd/perennial/internal/verbs"
	"perennial/jobs/command"
	"perennial/ledger"
	"perennial/ledger/fact"
	"perennial/ledger/failpoint"
	"perennial/queue"
	"perennial/queue/letters"
	"perennial/queue/publish"
)

// Points at which a test ends the process, between the steps of a requeue.
const (
	reachedRequeueFact      = "dead.requeue.fact"
	reachedRequeuePublished = "dead.requeue.published"
)

// deadRequeue publishes a dead command again as it was, and removes its letter: another
// content is for who may publish to publish, and only noted here. The order is: fact,
// publication, removal. A command that may cost money is not on its stream before the
// journal says who put it there, and the letter goes when the stream has the command on
// disk. An end between the steps leaves the letter where it was, beside a fact that says
// what was asked for; asking again appends another fact and publishes the same bytes. A
// command that is then on its stream twice is one command: its id with the same content is
// absorbed, and one that is refused without an id costs nothing and is a letter again. A
// message id would guard no better: the stream forgets it after its duplicate window,
// which is at its minimum.
func (a answers) deadRequeue(ctx context.Context, q verbs.DeadRequest) (verbs.Changed, error) {
	a.oneLetter.Lock() // a second request for the letter finds it gone
	defer a.oneLetter.Unlock()
	letter, err := a.letterOf(ctx, &q)
	if err != nil {
		return verbs.Changed{}, err
	}
	note := fact.DeadRequeued{LetterSeq: q.Seq, By: q.By, Reason: q.Reason, User: fact.UserOf(ctx), ContentHash: q.ContentHash}
	noted := func(tx *ledger.Tx) error { return tx.Append(note) }
	if q.ContentHash != "" {
		if hash, err := hex.DecodeString(q.ContentHash); err != nil || len(hash) != sha256.Size {
			return verbs.Changed{}, command.Refuse("content_hash %.80q is not a SHA-256 in hex", q.ContentHash)
		}
		return verbs.Changed{Changed: 1}, a.Ledger().Write(ctx, noted)
	}
	kind := queue.KindOf(a.Name, letter.Dead.Subject)
	if queue.ValidKind(kind) != nil || len(letter.Dead.Data) > queue.MaxCommandBytes {
		return verbs.Changed{}, command.Refuse("the command came on %.80q with %d bytes, and would be refused again: drop it, or publish a corrected one", letter.Dead.Subject, len(letter.Dead.Data))
	}
	if err := a.Ledger().Write(ctx, noted); err != nil {
		return verbs.Changed{}, err
	}
	failpoint.Reached(ctx, reachedRequeueFact)
	if err := publish.New(a.js()).Publish(ctx, a.Name, publish.Outgoing{Kind: kind, Data: letter.Dead.Data}); err != nil {
		return verbs.Changed{}, fmt.Errorf("publish it again: %w; the dead letter is still there", err)
	}
	failpoint.Reached(ctx, reachedRequeuePublished)
	return a.dropLetter(ctx, q.Seq)
}

// deadDrop removes a dead command for good, after the fact that says who did: an end
// between both leaves the letter, and it can be dropped again.
func (a answers) deadDrop(ctx context.Context, q verbs.DeadRequest) (verbs.Changed, error) {
	a.oneLetter.Lock()
	defer a.oneLetter.Unlock()
	if _, err := a.letterOf(ctx, &q); err != nil {
		return verbs.Changed{}, err
	}
	err := a.Ledger().Write(ctx, func(tx *ledger.Tx) error {
		return tx.Append(fact.DeadDropped{LetterSeq: q.Seq, By: q.By, Reason: q.Reason, User: fact.UserOf(ctx)})
	})
	if err != nil {
		return verbs.Changed{}, err
	}
	return a.dropLetter(ctx, q.Seq)
}

// letterOf is the letter that a request names, if the request says who asks and why.
func (a answers) letterOf(ctx context.Context, q *verbs.DeadRequest) (letters.Letter, error) {
	if err := signed(ctx, &q.By, q.Reason); err != nil {
		return letters.Letter{}, err
	}
	letter, err := a.letters().Read(ctx, q.Seq)
	if errors.Is(err, letters.ErrNone) {
		return letter, command.RefuseUnknown("there is no dead letter %d: `perennial dead-letters list` shows them", q.Seq)
	}
	return letter, err
}

// dropLetter removes a letter; one that is gone was removed by another request.
func (a answers) dropLetter(ctx context.Context, seq uint64) (verbs.Changed, error) {
	err := a.letters().Drop(ctx, seq)
	if err != nil && !errors.Is(err, letters.ErrNone) {
		return verbs.Changed{}, err
	}
	return verbs.Changed{Changed: 1}, nil
}
