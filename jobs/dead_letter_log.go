// This file logs dead letters at most once a minute.

package jobs

import (
	"sync"
	"time"

	"github.com/sirupsen/logrus"
)

// deadLetterLogEvery is the minimum interval between two log entries about dead letters. It
// keeps a faulty producer from filling the log.
const deadLetterLogEvery = time.Minute

// deadLetterLog counts the dead letters since the last log entry and keeps the first.
type deadLetterLog struct {
	mu     sync.Mutex
	count  int
	first  uint64 // sequence in the commands stream
	reason string
	said   time.Time
}

func (d *deadLetterLog) add(seq uint64, reason string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.count++; d.count == 1 {
		d.first, d.reason = seq, reason
	}
}

// log logs the count, unless the count is zero or the last entry is less than a minute old.
func (d *deadLetterLog) log(log *logrus.Entry, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.count == 0 || now.Sub(d.said) < deadLetterLogEvery {
		return
	}
	log.WithField("stream_sequence", d.first).WithField("messages", d.count).Warn("dead letter: " + d.reason)
	d.count, d.said = 0, now
}
