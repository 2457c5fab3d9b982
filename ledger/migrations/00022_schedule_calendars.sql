-- +goose Up

-- The instant from which each schedule counts its slots, and the calendar by which it does.
CREATE TABLE schedule_calendars (
    schedule TEXT    PRIMARY KEY,
    cron     TEXT    NOT NULL,
    timezone TEXT    NOT NULL,
    since    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- +goose Down
SELECT 1;
