package ledger

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"perennial/ledger/sqlite"

	"github.com/mattn/go-sqlite3"
	"github.com/pressly/goose/v3"
)

// The schema is part of what a ledger guarantees. Triggers keep the journal append-only. A
// unique index decides between two renewals of one proxy. Other tools read the views.
// Therefore a file is compared with the migrations of this program when it is opened and
// when it is verified.

// SchemaError is the error of Open for a file whose schema is newer than the migrations, or
// differs from the schema that the migrations make. Nothing was written.
type SchemaError struct {
	Path       string
	Version    int64  // the file's schema version
	Known      int64  // the newest version that this program knows
	Difference string // difference from the migrations' schema; "" if Version is newer than Known
}

func (e *SchemaError) Error() string {
	if e.Difference == "" {
		return fmt.Sprintf("ledger %s has schema version %d and this program knows versions up to %d: a newer program wrote it\nuse that program, or a newer one; nothing was changed",
			e.Path, e.Version, e.Known)
	}
	return fmt.Sprintf("ledger %s is not as its migrations made it (schema version %d): %s\nanother tool changed the file: see `perennial ledger verify`, and use a backup or `perennial backup rebuild`",
		e.Path, e.Version, e.Difference)
}

// schema maps each object of a database, such as "trigger journal_no_update", to its SQL.
// It also contains the rows of tables that only migrations fill.
type schema map[string]string

// schemaOf reads the schema of a database, without SQLite's own tables and the table of
// migrations.
func schemaOf(ctx context.Context, q sqlite.Queryer) (schema, error) {
	s := schema{}
	err := sqlite.Each(sqlite.Query(ctx, q, `SELECT type, name, coalesce(sql, '') FROM sqlite_schema
		WHERE substr(name, 1, 7) <> 'sqlite_' AND name <> 'goose_db_version'`), func(r sqlite.Scanner) error {
		var kind, name, text string
		err := r.Scan(&kind, &name, &text)
		s[kind+" "+name] = normalised(text)
		return err
	})
	if _, ok := s["table arrows"]; err == nil && ok {
		err = s.addArrows(ctx, q)
	}
	return s, err
}

// addArrows adds the rows of the table arrows, on which a trigger depends.
func (s schema) addArrows(ctx context.Context, q sqlite.Queryer) error {
	return sqlite.Each(sqlite.Query(ctx, q, `SELECT from_state || ' to ' || to_state FROM arrows`), func(r sqlite.Scanner) error {
		arrow, err := sqlite.Value[string](r)
		s["arrow "+arrow] = ""
		return err
	})
}

func (s schema) difference(have schema) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(s)) {
		text, ok := have[name]
		switch {
		case !ok:
			all = append(all, name+" is missing")
		case text != s[name]:
			all = append(all, name+" was changed")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if _, ok := s[name]; !ok {
			all = append(all, name+" was added")
		}
	}
	const most = 5
	if len(all) > most {
		all = append(all[:most], fmt.Sprintf("and %d more", len(all)-most))
	}
	return strings.Join(all, ", ")
}

// normalised returns SQL text without comments, with each run of white space replaced by one
// blank. Quoted text is unchanged.
func normalised(text string) string {
	var b strings.Builder
	for text != "" {
		var rest string
		switch {
		case strings.HasPrefix(text, "--"):
			_, rest, _ = strings.Cut(text, "\n")
			text = " "
		case strings.HasPrefix(text, "/*"):
			_, rest, _ = strings.Cut(text, "*/")
			text = " "
		case strings.ContainsRune(`'"`+"`", rune(text[0])):
			quoted, _, _ := strings.Cut(text[1:], text[:1])
			rest = text[min(len(text), len(quoted)+2):]
			text = text[:len(text)-len(rest)]
		default:
			rest, text = text[1:], text[:1]
		}
		if strings.TrimSpace(text) == "" {
			text = " "
		}
		if text != " " || !strings.HasSuffix(b.String(), " ") {
			b.WriteString(text)
		}
		text = rest
	}
	return strings.Trim(b.String(), " ;")
}

func knownVersion() (newest int64, err error) {
	files, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		number, _, _ := strings.Cut(strings.TrimPrefix(file, "migrations/"), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("migration %s: %w", file, err)
		}
		newest = max(newest, version)
	}
	return newest, nil
}

// emptySQL makes, in one transaction, what all migrations together make.
// TestANewLedgersSchemaIsWhatTheMigrationsMake writes and checks the file empty.sql.
//
//go:embed empty.sql
var emptySQL string

// emptyLedger returns the image of the database that emptySQL creates. It is built once per
// process.
var emptyLedger = sync.OnceValues(func() (image []byte, err error) {
	c, err := openRaw(":memory:")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if _, err := c.Exec(emptySQL, nil); err != nil {
		return nil, err
	}
	return c.Serialize("main")
})

// makeEmpty gives an empty file the schema of the migrations in one commit; the migrations need
// one commit each. A new ledger opens in a fifth of the time. Each verification opens a new
// ledger.
func makeEmpty(_ context.Context, source string) (err error) {
	image, err := emptyLedger()
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	from, err := openRaw(":memory:")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	if err := from.Deserialize(image, "main"); err != nil {
		return err
	}
	to, err := openRaw(source)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	b, err := to.Backup("main", from, "main")
	if err != nil {
		return err
	}
	done, err := b.Step(-1)
	if err == nil && !done {
		err = errors.New("another process writes the new file")
	}
	return errors.Join(err, b.Finish())
}

func fillEmpty(ctx context.Context, db *sql.DB) error {
	image, err := emptyLedger()
	if err != nil {
		return err
	}
	c, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	err = c.Raw(func(raw any) error {
		return raw.(*sqlite3.SQLiteConn).Deserialize(image, "main") //nolint:forcetypeassert // the driver's own
	})
	return errors.Join(err, c.Close())
}

func openRaw(source string) (*sqlite3.SQLiteConn, error) {
	c, err := (&sqlite3.SQLiteDriver{}).Open(source)
	if err != nil {
		return nil, err
	}
	return c.(*sqlite3.SQLiteConn), nil //nolint:forcetypeassert // the driver's own
}

// madeSchemas caches the schemas of the migrations by version. Each is made once per
// process, in memory.
var madeSchemas sync.Map

func madeSchema(ctx context.Context, version int64) (made schema, err error) {
	if made, ok := madeSchemas.Load(version); ok {
		return made.(schema), nil //nolint:forcetypeassert // nothing else is stored there
	}
	db, err := sql.Open("sqlite3", ":memory:")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // each connection would have its own in-memory database
	defer func() { err = errors.Join(err, db.Close()) }()
	switch known, unknown := knownVersion(); {
	case unknown != nil:
		err = unknown
	case version == known:
		err = fillEmpty(ctx, db)
	case version > 0:
		err = withMigrations(db, func(p *goose.Provider) error {
			_, err := p.UpTo(ctx, version)
			return err
		})
	}
	if err == nil {
		made, err = schemaOf(ctx, db)
	}
	if err != nil {
		return nil, fmt.Errorf("make schema version %d to compare with: %w", version, err)
	}
	madeSchemas.Store(version, made)
	return made, nil
}

func versionOf(ctx context.Context, q sqlite.Queryer) (version int64, err error) {
	err = sqlite.IfMade(ctx, q, "goose_db_version", func() error {
		return q.QueryRowContext(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied = 1`).Scan(&version)
	})
	return version, err
}

// checkSchema compares a database with the migrations up to its version. current reports
// whether that version is the newest one. It returns a *SchemaError for a difference or a
// newer version. An older version is not an error.
func checkSchema(ctx context.Context, q sqlite.Queryer, path string) (current bool, err error) {
	known, err := knownVersion()
	if err != nil {
		return false, err
	}
	version, err := versionOf(ctx, q)
	if err != nil {
		return false, fmt.Errorf("read the schema of ledger %s: %w", path, err)
	}
	if version > known {
		return false, &SchemaError{Path: path, Version: version, Known: known}
	}
	made, err := madeSchema(ctx, version)
	if err != nil {
		return false, err
	}
	have, err := schemaOf(ctx, q)
	if err != nil {
		return false, fmt.Errorf("read the schema of ledger %s: %w", path, err)
	}
	if different := made.difference(have); different != "" {
		return false, &SchemaError{Path: path, Version: version, Known: known, Difference: different}
	}
	return version == known, nil
}

// checkSchemaOfFile checks the schema of a file without writing to it. An empty or missing
// file has no schema yet.
func checkSchemaOfFile(ctx context.Context, path string) (current bool, err error) {
	info, err := os.Stat(path)
	if err != nil || info.Size() == 0 {
		return false, nil //nolint:nilerr // opening the file will return the error
	}
	check := func(mode string) (bool, error) {
		db := openDB(path, mode, nil)
		current, err := checkSchema(ctx, db, path)
		return current, errors.Join(err, db.Close())
	}
	current, err = check("ro")
	if failure, ok := errors.AsType[sqlite3.Error](err); ok && failure.Code == sqlite3.ErrReadonly {
		// After a crash a rollback journal must be rolled back first.
		return check("rw")
	}
	return current, err
}
