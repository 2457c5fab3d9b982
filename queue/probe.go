// Checks that the connection works now, and what its servers can keep.

package queue

import (
	"context"
	"fmt"
)

// Probe says why nothing comes through the connection at the moment, nil while it
// does: a server that is silent is found so before its connection is given up.
func (q *Queue) Probe(ctx context.Context) error {
	if why := q.Down(); why != "" {
		return fmt.Errorf("%s", why)
	}
	if err := q.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("NATS at %s does not answer: %w", q.URL(), err)
	}
	return nil
}

// CheckReplicas says why streams of so many copies cannot be made on this server or
// cluster, nil when they can as far as a client can see.
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

// Servers is how many servers of its cluster the connected server has named; 1 of a single one.
func (q *Queue) Servers() int {
	if q.nc.ConnectedClusterName() == "" {
		return 1
	}
	return len(q.nc.Servers())
}
