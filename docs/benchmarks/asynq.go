// Asynq on Redis: the result is written with the task, which is kept.

package main

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

type asynqStore struct {
	address string
	redis   *redis.Client
}

func openAsynq(address string) store {
	return &asynqStore{address: address, redis: redis.NewClient(&redis.Options{Addr: address})}
}

func (s *asynqStore) close() { _ = s.redis.Close() }

func (s *asynqStore) prepare(ctx context.Context) error { return s.redis.FlushAll(ctx).Err() }

// asynqProducers is how many goroutines enqueue: Asynq adds one task a round trip.
const asynqProducers = 16

func (s *asynqStore) produce(ctx context.Context, first, jobs int) error {
	c := asynq.NewClient(asynq.RedisClientOpt{Addr: s.address, PoolSize: asynqProducers})
	defer func() { _ = c.Close() }()
	group, ctx := errgroup.WithContext(ctx)
	for p := range asynqProducers {
		group.Go(func() error {
			for n := first + p; n < first+jobs; n += asynqProducers {
				task := asynq.NewTask("renewal", []byte(strconv.Itoa(n)))
				if _, err := c.EnqueueContext(ctx, task, asynq.Retention(time.Hour), asynq.Timeout(time.Minute)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func (s *asynqStore) work(ctx context.Context, w *worker) error {
	server := asynq.NewServer(asynq.RedisClientOpt{Addr: s.address, PoolSize: w.concurrency + 8}, asynq.Config{
		Concurrency: w.concurrency, LogLevel: asynq.FatalLevel,
		TaskCheckInterval:        10 * time.Millisecond, // of an empty queue; default 1 s
		DelayedTaskCheckInterval: time.Second,           // default 5 s
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return 0 },
	})
	err := server.Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		n, err := strconv.Atoi(string(task.Payload()))
		if err != nil {
			return err
		}
		got, err := w.do(ctx, n)
		if err != nil {
			return err
		}
		text, err := json.Marshal(got)
		if err != nil {
			return err
		}
		_, err = task.ResultWriter().Write(text)
		return err
	}))
	if err != nil {
		return err
	}
	<-ctx.Done()
	server.Shutdown()
	return nil
}

func (s *asynqStore) done(ctx context.Context) (int, error) {
	n, err := s.redis.ZCard(ctx, "asynq:{default}:completed").Result()
	return int(n), err
}
