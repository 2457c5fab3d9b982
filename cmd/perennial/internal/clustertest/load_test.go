//go:build check

// The load is a NATS client that publishes orders and renewals, each until it is acknowledged.

package clustertest

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const perSecond = 50

type load struct {
	rig *rig

	mu           sync.Mutex
	count        int             // commands so far
	acknowledged map[string]bool // ids
	stop         context.CancelFunc
	publishing   sync.WaitGroup
}

func newLoad(r *rig) *load {
	l := &load{rig: r, acknowledged: map[string]bool{}, stop: func() {}}
	r.t.Cleanup(func() { l.stop() })
	return l
}

func (l *load) begin() {
	ctx, cancel := context.WithCancel(l.rig.ctx)
	l.stop = cancel
	l.publishing.Go(func() {
		ticker := time.NewTicker(time.Second / perSecond)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				l.publishing.Add(1)
				go l.publish()
			}
		}
	})
}

func (l *load) end() {
	l.rig.t.Helper()
	l.stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.publishing.Wait()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		l.rig.t.Fatalf("after %s commands are not acknowledged: the commands stream does not work; logs in %s", patience, l.rig.dir)
	}
}

// publish publishes a new command until it is acknowledged. If the acknowledgement is lost, it
// publishes a duplicate, which the runner must detect.
func (l *load) publish() {
	defer l.publishing.Done()
	l.mu.Lock()
	l.count++
	n := l.count
	l.mu.Unlock()
	l.publishCommand(n)
}

// again publishes every command of the load once more.
func (l *load) again() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := 1; n <= l.count; n++ {
		l.publishing.Go(func() { l.publishCommand(n) })
	}
}

func (l *load) publishCommand(n int) {
	id := fmt.Sprintf("c-%d", n)
	subject, body := "proxy.renew", fmt.Sprintf(`{"id":%q,"proxy_ids":["px_%d"],"duration_days":30}`, id, n/2)
	if n%2 == 1 || n/2 > proxies {
		subject, body = "order.create", fmt.Sprintf(`{"id":%q,"duration_days":30,"items":[{"offer_code":"off_us_1","quantity":%d}]}`, id, 1+n%3)
	}
	for l.rig.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(l.rig.ctx, 2*time.Second)
		_, err := l.rig.js.Publish(ctx, "perennial.commands.main."+subject, []byte(body))
		cancel()
		if err == nil {
			l.mu.Lock()
			l.acknowledged[id] = true
			l.mu.Unlock()
			return
		}
		select {
		case <-l.rig.ctx.Done():
		case <-time.After(50 * time.Millisecond): // between two attempts
		}
	}
}

// ids returns the acknowledged commands.
func (l *load) ids() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids := make([]string, 0, len(l.acknowledged))
	for id := range l.acknowledged {
		ids = append(ids, id)
	}
	return ids
}
