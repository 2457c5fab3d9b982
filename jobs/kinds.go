package jobs

import (
	"cmp"
	"maps"
	"slices"

	"perennial/jobs/command"
	"perennial/ledger/fact"
	"perennial/queue"
	"perennial/upstream"
)

// kind says how commands of one kind are read from the stream, queued and sent.
type kind struct {
	subject  queue.Kind // in the commands stream
	lane     lane
	priority gatePriority       // among requests that charge
	write    upstream.WriteKind // the request to the provider
	body     bodyMaker
	// polled means that a successful request leaves the operation open, and its order is
	// polled until it settles.
	polled bool
}

// bodyMaker returns the body of a request. The body must depend only on the command and the
// ids, in sorted order, so that an attempt after a restart sends the same bytes.
type bodyMaker func(c command.Command, ids []string, cidrField string) ([]byte, error)

var kinds = map[fact.Kind]kind{
	fact.KindOrder:   orderKind,
	fact.KindRenewal: renewalKind,
}

// rowOf panics for an unknown kind.
func rowOf(k fact.Kind) kind {
	row, ok := kinds[k]
	if !ok {
		panic("jobs: kind " + string(k) + " has no row in the table of kinds")
	}
	return row
}

// KindOf returns the ledger's kind for a subject. It returns "" if the subject is unknown.
// Parsing a command of an unknown kind fails.
func KindOf(subject queue.Kind) fact.Kind {
	for k, row := range kinds {
		if row.subject == subject {
			return k
		}
	}
	return ""
}

// Kinds returns the ledger's names of all kinds, sorted.
func Kinds() []fact.Kind { return slices.Sorted(maps.Keys(kinds)) }

func kindsByPriority() []fact.Kind {
	return slices.SortedFunc(maps.Keys(kinds), func(a, b fact.Kind) int {
		return cmp.Compare(kinds[a].priority, kinds[b].priority)
	})
}

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

var renewalKind = kind{
	subject: queue.KindProxyRenew, lane: laneRenewal, priority: priorityRenewal, write: upstream.WriteRenewal,
	body: renewalBody, polled: false,
}

func renewalBody(c command.Command, ids []string, _ string) ([]byte, error) {
	return upstream.RenewBody(upstream.RenewRequest{ProxyIDs: slices.Sorted(slices.Values(ids)), DurationDays: c.DurationDays})
}
