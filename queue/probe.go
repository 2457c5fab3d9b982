// Checks whether the connection works now, and how many copies its servers can keep.

package queue

import (
	"context"
	"fmt"
)

// Probe returns why the connection does not work now, nil if it does. It detects a silent
// server before the connection is dropped.
func (q *Queue) Probe(ctx context.Context) error {
	if why := q.Down(); why != "" {
		return fmt.Errorf("%s", why)
	}
	if err := q.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("NATS at %s does not answer: %w", q.URL(), err)
	}
	return nil
}

// CheckReplicas returns why this server or cluster cannot keep streams with so many
// replicas, nil if a client can see no reason.
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

// Servers returns how many servers the connected server has named of its cluster; 1 for a
// single server.
func (q *Queue) Servers() int {
	if q.nc.ConnectedClusterName() == "" {
		return 1
	}
	return len(q.nc.Servers())
}
