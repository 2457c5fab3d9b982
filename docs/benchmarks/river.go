// River on PostgreSQL: the job alone with its result as recorded output, or with two rows
// of a ledger in the transaction that completes it.

package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
)

// riverStuck is after how long without an end River may take a job for stuck. The default
// is an hour; replies take 250 ms at most here.
const riverStuck = 5 * time.Second

type riverStore struct {
	pool   *pgxpool.Pool
	ledger bool
}

func openRiver(ctx context.Context, url string, ledger bool) (store, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 16 // as fast as 32 and 72 on two cores
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return &riverStore{pool: pool, ledger: ledger}, nil
}

func (s *riverStore) close() { s.pool.Close() }

// prepare migrates an empty database, and empties one that was used.
func (s *riverStore) prepare(ctx context.Context) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(s.pool), &rivermigrate.Config{Logger: quiet()})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	_, err = s.pool.Exec(ctx, `
		CREATE TABLE IF NOT EXISTS entries (
			id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
			job bigint NOT NULL, account text NOT NULL, cents bigint NOT NULL,
			trace_id text NOT NULL, at timestamptz NOT NULL DEFAULT now());
		TRUNCATE river_job, river_leader, entries`)
	return err
}

// renewal is the job's arguments.
type renewal struct {
	N int `json:"n"`
}

// Kind names the job to River.
func (renewal) Kind() string { return "renewal" }

const riverBatch = 500 // jobs of one INSERT

func (s *riverStore) produce(ctx context.Context, first, jobs int) error {
	c, err := river.NewClient(riverpgxv5.New(s.pool), &river.Config{Logger: quiet()})
	if err != nil {
		return err
	}
	for n := first; n < first+jobs; n += riverBatch {
		var batch []river.InsertManyParams
		for i := n; i < min(n+riverBatch, first+jobs); i++ {
			batch = append(batch, river.InsertManyParams{Args: renewal{N: i}})
		}
		if _, err := c.InsertManyFast(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// riverWorker carries out River's jobs.
type riverWorker struct {
	river.WorkerDefaults[renewal]
	*worker
	store *riverStore
}

// Work is one attempt of a job, and the record of its result.
func (w *riverWorker) Work(ctx context.Context, job *river.Job[renewal]) error {
	got, err := w.do(ctx, job.Args.N)
	if err != nil {
		return err
	}
	if err := river.RecordOutput(ctx, got); err != nil {
		return err
	}
	if !w.store.ledger {
		return nil
	}
	return pgx.BeginFunc(ctx, w.store.pool, func(tx pgx.Tx) error {
		const entry = `INSERT INTO entries (job, account, cents, trace_id) VALUES ($1, $2, $3, $4), ($1, $5, $6, $4)`
		if _, err := tx.Exec(ctx, entry, job.ID, "wallet", -got.ChargedCents, got.TraceID, "proxies", got.ChargedCents); err != nil {
			return err
		}
		_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
		return err
	})
}

// Timeout of one attempt.
func (w *riverWorker) Timeout(*river.Job[renewal]) time.Duration { return riverStuck }

// NextRetry has a job that failed, or was found stuck, run again at once.
func (w *riverWorker) NextRetry(*river.Job[renewal]) time.Time { return time.Now() }

func (s *riverStore) work(ctx context.Context, w *worker) error {
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{worker: w, store: s})
	c, err := river.NewClient(riverpgxv5.New(s.pool), &river.Config{
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: w.concurrency}},
		Workers:       workers,
		FetchCooldown: time.Millisecond, FetchPollInterval: 10 * time.Millisecond, // defaults 100 ms and 1 s
		JobTimeout: riverStuck, RescueStuckJobsAfter: riverStuck,
		Logger: quiet(),
	})
	if err != nil {
		return err
	}
	if err := c.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	<-c.Stopped()
	return nil
}

func (s *riverStore) done(ctx context.Context) (n int, err error) {
	err = s.pool.QueryRow(ctx, `SELECT count(*) FROM river_job WHERE state = $1`, string(rivertype.JobStateCompleted)).Scan(&n)
	return n, err
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
