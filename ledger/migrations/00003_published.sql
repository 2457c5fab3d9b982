-- +goose Up

-- How far the events stream is known to have held the journal: a note for the
-- next start, and no projection. Without it a stream that was emptied is filled
-- again, in silence, from a ledger that may have been rewritten.
CREATE TABLE published (
    one         INTEGER PRIMARY KEY CONSTRAINT published_single CHECK (one = 1),
    seq         INTEGER NOT NULL,              -- acknowledged by the stream
    hash        TEXT    NOT NULL,              -- of that row
    firm_seq    INTEGER NOT NULL,              -- noted ten minutes before a later note
    pending_seq INTEGER NOT NULL,              -- becomes firm_seq
    pending_at  INTEGER NOT NULL,
    CONSTRAINT published_order CHECK (0 <= firm_seq AND firm_seq <= pending_seq AND pending_seq <= seq)
) STRICT;

-- +goose Down
SELECT 1;
