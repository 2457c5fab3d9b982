// The verbs `dead-requeue` and `dead-drop`, an operator's decisions on a dead letter.

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

// Failpoints between the steps of a requeue.
const (
	reachedRequeueFact      = "dead.requeue.fact"
	reachedRequeuePublished = "dead.requeue.published"
)

// deadRequeue publishes a dead letter again unchanged and then removes it. Other content must
// come from a publisher; the fact only notes it. The order is fact, publication, removal. The
// journal says who requeued a command before the stream has it. The letter goes once the
// stream has the command on disk. After a crash between the steps the letter and a fact
// remain. Asking again appends another fact and publishes the same bytes. A command that is
// then on the stream twice counts once, because its id and content are the same. A command
// refused without an id costs nothing and becomes a dead letter again. A message id would
// protect no better, because the stream forgets it after its minimal duplicate window.
func (a answers) deadRequeue(ctx context.Context, q verbs.DeadRequest) (verbs.Changed, error) {
	a.oneLetter.Lock() // a second request for the letter finds it removed
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

// deadDrop appends the fact that says who drops a dead letter, then removes the letter. After
// a crash between the two the letter remains and can be dropped again.
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

// letterOf returns the dead letter of a request that says who asks and why.
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

// dropLetter removes a dead letter. A missing letter is no error, since another request
// removed it.
func (a answers) dropLetter(ctx context.Context, seq uint64) (verbs.Changed, error) {
	err := a.letters().Drop(ctx, seq)
	if err != nil && !errors.Is(err, letters.ErrNone) {
		return verbs.Changed{}, err
	}
	return verbs.Changed{Changed: 1}, nil
}
