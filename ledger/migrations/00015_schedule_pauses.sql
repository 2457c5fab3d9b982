-- +goose Up

-- Schedules that a person paused.
CREATE TABLE schedule_pauses (
    schedule TEXT    PRIMARY KEY,
    since    INTEGER NOT NULL,
    until    INTEGER,                          -- null: until it is resumed
    by       TEXT    NOT NULL,
    reason   TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- +goose Down
SELECT 1;
