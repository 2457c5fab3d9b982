// The SQLite file of a sandbox with a database.

package sandbox

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	_ "github.com/mattn/go-sqlite3" // the driver "sqlite3"

	"perennial/ledger/files"
)

// store contains the rows that differ from the fixture, the used nonces and the referee's
// lines.
type store struct {
	db     *sql.DB
	synced int64 // the newest row of charges that is known to be in the referee's file
	last   int64 // the newest row of charges

	pruned time.Time // the last time that old nonces were deleted
}

const schema = `
CREATE TABLE IF NOT EXISTS state (kind TEXT NOT NULL, id TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (kind, id)) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS nonces (seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, batch BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS charges (seq INTEGER PRIMARY KEY, lines BLOB NOT NULL) STRICT;`

// openStore opens and locks the file. Without a lock, two sandboxes could use one file,
// although each keeps its own state in memory.
func openStore(path string) (*store, error) {
	dsn := "file:" + path + "?_journal_mode=WAL&_synchronous=FULL&_txlock=immediate&_locking_mode=EXCLUSIVE&_busy_timeout=2000"
	if err := files.Make(path); err != nil { // SQLite creates its other files with the same mode
		return nil, fmt.Errorf("sandbox database: %w", err)
	}
	db, err := sql.Open("sqlite3", dsn)
	if err != nil {
		return nil, fmt.Errorf("sandbox database: %w", err)
	}
	db.SetMaxOpenConns(1)
	st := &store{db: db}
	if err := st.prepare(); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("sandbox database %s: %w", path, err)
	}
	return st, nil
}

func (st *store) prepare() error {
	if _, err := st.db.Exec(schema); err != nil {
		return err
	}
	var synchronous int
	if err := st.db.QueryRow("PRAGMA synchronous").Scan(&synchronous); err != nil {
		return err
	}
	if synchronous != 2 {
		return errors.New("synchronous is not FULL")
	}
	if err := st.db.QueryRow("SELECT coalesce(max(seq),0) FROM charges").Scan(&st.last); err != nil {
		return err
	}
	_, err := st.decode("synced", &st.synced)
	return err
}

// meta returns a value about the sandbox itself, or nil if the value does not exist.
func (st *store) meta(id string) ([]byte, error) {
	var data []byte
	err := st.db.QueryRow("SELECT data FROM state WHERE kind='meta' AND id=?", id).Scan(&data)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return data, err
}

// decode decodes a value about the sandbox as JSON. known reports whether the value exists.
func (st *store) decode(id string, into any) (known bool, err error) {
	data, err := st.meta(id)
	if err != nil || data == nil {
		return false, err
	}
	return true, json.Unmarshal(data, into)
}

func (st *store) each(kind string, do func(id string, data []byte) error) error {
	var id string
	var data []byte
	return st.query("SELECT id, data FROM state WHERE kind=?", []any{&id, &data}, func() error {
		if err := do(id, data); err != nil {
			return fmt.Errorf("%s %s: %w", kind, id, err)
		}
		return nil
	}, kind)
}

// query scans each row into the given variables and calls do. do may keep the byte slices.
func (st *store) query(text string, into []any, do func() error, args ...any) error {
	rows, err := st.db.Query(text, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if err := do(); err != nil {
			return err
		}
	}
	return rows.Err()
}

// commit stores the changes in one transaction. It also stores the newest row of charges that
// is known to be in the referee's file.
func (st *store) commit(batch []*change) error {
	tx, err := st.db.Begin()
	if err != nil {
		return fmt.Errorf("sandbox database: %w", err)
	}
	last, err := st.write(tx, batch)
	if err == nil {
		err = tx.Commit()
	} else {
		_ = tx.Rollback()
	}
	if err != nil {
		return fmt.Errorf("sandbox database: %w", err)
	}
	st.synced, st.last = st.last, last // the caller has already appended the lines of the previous batch
	return nil
}

func (st *store) write(tx *sql.Tx, batch []*change) (int64, error) {
	upsert, err := tx.Prepare("INSERT INTO state(kind,id,data) VALUES(?,?,?) ON CONFLICT(kind,id) DO UPDATE SET data=excluded.data")
	if err != nil {
		return 0, err
	}
	defer func() { _ = upsert.Close() }()
	last := st.last
	for _, c := range batch {
		for _, r := range c.rows {
			if r.data == nil {
				_, err = tx.Exec("DELETE FROM state WHERE kind=? AND id=?", r.kind, r.id)
			} else {
				_, err = upsert.Exec(r.kind, r.id, r.data)
			}
			if err != nil {
				return 0, err
			}
		}
		if len(c.lines) == 0 {
			continue
		}
		last++
		if _, err := tx.Exec("INSERT INTO charges(seq,lines) VALUES(?,?)", last, c.lines); err != nil {
			return 0, err
		}
	}
	if err := st.writeNonces(tx, batch); err != nil {
		return 0, err
	}
	_, err = upsert.Exec("meta", "synced", []byte(strconv.FormatInt(st.last, 10)))
	return last, err
}

// writeNonces stores the nonces of a batch in one row. Once a minute it deletes old nonces.
func (st *store) writeNonces(tx *sql.Tx, batch []*change) error {
	var used [][2]string
	var at time.Time
	for _, c := range batch {
		if c.nonce.appID != "" {
			used, at = append(used, [2]string{c.nonce.appID, c.nonce.nonce}), c.nonce.at
		}
	}
	if used == nil {
		return nil
	}
	data, _ := json.Marshal(used) // never fails for printable ASCII
	if _, err := tx.Exec("INSERT INTO nonces(at,batch) VALUES(?,?)", at.UnixMilli(), data); err != nil {
		return err
	}
	if at.Sub(st.pruned) < time.Minute {
		return nil
	}
	st.pruned = at
	_, err := tx.Exec("DELETE FROM nonces WHERE seq < (SELECT seq FROM nonces WHERE at >= ? ORDER BY seq LIMIT 1)", at.Add(-nonceMemory).UnixMilli())
	return err
}

func (st *store) eachNonce(do func(appID, nonce string, at time.Time)) error {
	var at int64
	var data []byte
	return st.query("SELECT at, batch FROM nonces ORDER BY seq", []any{&at, &data}, func() error {
		var used [][2]string
		if err := json.Unmarshal(data, &used); err != nil {
			return fmt.Errorf("nonces: %w", err)
		}
		for _, n := range used {
			do(n[0], n[1], time.UnixMilli(at))
		}
		return nil
	})
}

func (st *store) lines(after int64) (out [][]byte, err error) {
	var blob []byte
	err = st.query("SELECT lines FROM charges WHERE seq>? ORDER BY seq", []any{&blob}, func() error {
		out = slices.AppendSeq(out, bytes.Lines(blob))
		return nil
	}, after)
	return out, err
}
