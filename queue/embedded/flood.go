package embedded

import (
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"perennial/queue/roles"
)

const (
	// floodEvery is the minimum interval between two log entries about floods. To find the
	// sender, the message counts of up to floodClients clients are compared over floodLook.
	floodEvery   = time.Minute
	floodLook    = 50 * time.Millisecond
	floodClients = 1000
)

func (l *serverLog) watch(s *server.Server) { l.busy.Store(s) }

func (l *serverLog) flooded(text string) {
	s := l.busy.Swap(nil)
	if s == nil {
		return
	}
	time.AfterFunc(floodEvery, func() { l.busy.CompareAndSwap(nil, s) })
	before := sentBy(s)
	time.AfterFunc(floodLook, func() {
		var most *server.ConnInfo
		var more int64
		for cid, c := range sentBy(s) {
			sent := c.InMsgs
			if was := before[cid]; was != nil && c.InMsgs > was.InMsgs {
				sent += floodWeight * (c.InMsgs - was.InMsgs)
			}
			if c.AuthorizedUser != roles.RunnerUser && (most == nil || sent > more) { // the runner publishes for others
				most, more = c, sent
			}
		}
		log := l.log.WithField("error", text)
		if most != nil {
			log = log.WithField("user", most.AuthorizedUser).WithField("client", most.Name).WithField("remote", net.JoinHostPort(most.IP, strconv.Itoa(most.Port)))
		}
		log.Warn("a client publishes faster than the server stores, and is refused: have it wait for acknowledgements")
	})
}

// floodWeight makes a message that was sent during floodLook count more than an earlier one.
const floodWeight = 1000

func sentBy(s *server.Server) map[uint64]*server.ConnInfo {
	all := map[uint64]*server.ConnInfo{}
	if z, err := s.Connz(&server.ConnzOptions{Username: true, Sort: server.ByInMsgs, Limit: floodClients}); err == nil {
		for _, c := range z.Conns {
			all[c.Cid] = c
		}
	}
	return all
}
