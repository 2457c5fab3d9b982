// The job: the same for every peer. Its number names the proxy that it renews.

package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
)

// proxyOf is the proxy that the n-th job renews, from 1.
func proxyOf(n int) string { return "px_" + strconv.Itoa(n) }

// Ways to choose the Idempotency-Key of a request.
const (
	keyPerAttempt = "attempt" // a random one each time the job runs, as many SDKs mint them
	keyPerJob     = "job"     // made from the job's number: every attempt has the same
)

// worker carries jobs out, as many at once as concurrency says.
type worker struct {
	client      *apiClient
	keys        string // keyPerAttempt or keyPerJob
	concurrency int
}

// do is one attempt of the n-th job.
func (w *worker) do(ctx context.Context, n int) (result, error) {
	key := "job-" + strconv.Itoa(n)
	if w.keys == keyPerAttempt {
		key = rand.Text()
	}
	return w.client.renew(ctx, key, proxyOf(n))
}

// store is a queue with what it keeps. Each process of a measurement opens its own: the
// one that measures prepares and counts, the producer produces, the worker works.
type store interface {
	// prepare makes the queue empty.
	prepare(ctx context.Context) error
	// produce adds jobs, and returns when the store has acknowledged all of them.
	produce(ctx context.Context, first, jobs int) error
	// work carries jobs out until ctx ends.
	work(ctx context.Context, w *worker) error
	// done is how many jobs the store has as done since it was prepared.
	done(ctx context.Context) (int, error)
	close()
}

// openStore connects to a peer's store.
func openStore(ctx context.Context, peer, url string) (store, error) {
	switch peer {
	case "river":
		return openRiver(ctx, url, false)
	case "river-ledger":
		return openRiver(ctx, url, true)
	case "asynq":
		return openAsynq(url), nil
	case "jetstream":
		return openJetStream(url)
	case "temporal":
		return openTemporal(ctx, url)
	}
	return nil, fmt.Errorf("no peer is called %q", peer)
}
