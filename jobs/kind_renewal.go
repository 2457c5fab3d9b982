// This file has the entry of proxy.renew in the table of kinds, and its request body.

package jobs

import (
	"slices"

	"perennial/jobs/command"
	"perennial/queue"
	"perennial/upstream"
)

var renewalKind = kind{
	subject: queue.KindProxyRenew, lane: laneRenewal, priority: priorityRenewal, write: upstream.WriteRenewal,
	body: renewalBody, polled: false,
}

func renewalBody(c command.Command, ids []string, _ string) ([]byte, error) {
	return upstream.RenewBody(upstream.RenewRequest{ProxyIDs: slices.Sorted(slices.Values(ids)), DurationDays: c.DurationDays})
}
