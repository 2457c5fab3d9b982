// This file has the entry of order.create in the table of kinds, and its request body.

package jobs

import (
	"perennial/jobs/command"
	"perennial/queue"
	"perennial/upstream"
)

var orderKind = kind{
	subject: queue.KindOrderCreate, lane: laneOrder, priority: priorityOrder, write: upstream.WriteOrder,
	body: orderBody, polled: true,
}

func orderBody(c command.Command, _ []string, cidrField string) ([]byte, error) {
	request := upstream.OrderRequest{DurationDays: c.DurationDays, CIDRField: cidrField}
	for _, i := range c.Items {
		request.Items = append(request.Items, upstream.OrderItem{OfferCode: i.OfferCode, Quantity: i.Quantity, CIDRs: i.CIDRs})
	}
	return upstream.OrderBody(request)
}
