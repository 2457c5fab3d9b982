// The service requests `dead-requeue` and `dead-drop`, which requeue or remove a dead
// letter.

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

// deadRequeue publishes a dead letter again, unchanged, and then removes the letter. If the
// request has a content hash, the caller publishes corrected content, and deadRequeue only
// records the hash.
//
// The order is fact, publication, removal. The journal thus records who requeued a command
// before the stream has the command. The letter is removed only after the stream has stored
// the command. After a crash between these steps, the letter remains and the operator
// repeats the request. The repetition appends another fact and publishes the same bytes
// again. A command that is on the stream twice is carried out once, because id and content
// are the same. A command that was refused because it has no id becomes a dead letter again.
// A message id would add no protection, because the stream forgets message ids after a short
// duplicate window.
func (a answers) deadRequeue(ctx context.Context, q verbs.DeadRequest) (verbs.Changed, error) {
	a.oneLetter.Lock() // a second request for the letter then finds it removed
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

// deadDrop appends a fact that records who drops a dead letter, then removes the letter.
// After a crash between these steps, the letter remains and can be dropped again.
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

// letterOf returns the dead letter of a request. It refuses a request without a name or reason.
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

// dropLetter removes a dead letter. A missing letter is not an error, because it may have
// been removed in the meantime.
func (a answers) dropLetter(ctx context.Context, seq uint64) (verbs.Changed, error) {
	err := a.letters().Drop(ctx, seq)
	if err != nil && !errors.Is(err, letters.ErrNone) {
		return verbs.Changed{}, err
	}
	return verbs.Changed{Changed: 1}, nil
}
