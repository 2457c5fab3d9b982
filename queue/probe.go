// This file checks whether the connection works now, and how many copies its servers can
// keep.

package queue

import (
	"context"
	"fmt"
)

// Probe returns why the connection does not work now, or nil if it does. It detects a server
// that no longer replies before the client drops the connection. ctx must have a deadline.
func (q *Queue) Probe(ctx context.Context) error {
	if why := q.Down(); why != "" {
		return fmt.Errorf("%s", why)
	}
	if err := q.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("NATS at %s does not answer: %w", q.URL(), err)
	}
	return nil
}

// CheckReplicas returns why the server or cluster cannot keep streams with this number of
// replicas. It returns nil if the client sees no reason.
func (q *Queue) CheckReplicas(replicas int) error {
	if replicas <= 1 {
		return nil
	}
	if q.nc.ConnectedClusterName() == "" {
		return fmt.Errorf("%d replicas are asked for, and NATS at %s is a single server", replicas, q.URL())
	}
	if n := len(q.nc.Servers()); n < replicas {
		return fmt.Errorf("%d replicas are asked for, and the cluster of NATS at %s shows %d servers", replicas, q.URL(), n)
	}
	return nil
}

// Servers returns how many server addresses the client knows: the configured ones and those
// that the cluster has announced. It returns 1 if the connected server is not in a cluster.
func (q *Queue) Servers() int {
	if q.nc.ConnectedClusterName() == "" {
		return 1
	}
	return len(q.nc.Servers())
}
