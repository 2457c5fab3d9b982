// The log line about dead letters, at most once a minute.

package jobs

import (
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

// deadLineEvery is the minimum interval between two log lines about dead letters, so
// that an invalid producer does not fill the log.
const deadLineEvery = time.Minute

// deadLine counts the dead letters since the last log line and keeps the first.
type deadLine struct {
	mu     sync.Mutex
	count  int
	first  uint64 // sequence in the commands stream
	reason string
	said   time.Time
}

// add counts a dead letter.
func (d *deadLine) add(seq uint64, reason string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.count++; d.count == 1 {
		d.first, d.reason = seq, reason
	}
}

// log logs the count, unless it is zero or a line was logged within the last minute.
func (d *deadLine) log(log *logrus.Entry, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.count == 0 || now.Sub(d.said) < deadLineEvery {
		return
	}
	log.WithField("stream_sequence", d.first).WithField("messages", d.count).Warn("dead letter: " + d.reason)
	d.count, d.said = 0, now
}
