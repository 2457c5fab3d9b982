package webhook

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"perennial/queue/positions"
)

// The endpoint fails, drops replies and is slow at random, and the sink is stopped repeatedly. Each
// event arrives, and different commands are delivered in parallel.
func TestEventsOfOneCommandArriveInOrder(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, seed))
			r := newRig(func(string, int) (int, http.Header, time.Duration) {
				return []int{204, 200, 200, 500, 429, 404, 0}[random.IntN(7)], nil, time.Duration(random.IntN(12000)) * time.Millisecond
			})
			const events = 400
			commands := map[uint64]int{}
			for range events {
				n := random.IntN(30)
				commands[r.h.happen(fmt.Sprintf("command-%d", n), "order.progressed")] = n
			}
			for range 10 {
				r.runFor(t, time.Duration(random.IntN(60))*time.Second)
			}
			r.e.answers(fine)
			r.runFor(t, time.Hour)
			last := map[int]uint64{}
			firsts := r.e.firsts()
			for _, seq := range firsts {
				if n := commands[seq]; seq < last[n] {
					t.Errorf("seed %d: event %d of command %d was delivered behind event %d", seed, seq, n, last[n])
				}
				last[commands[seq]] = seq
			}
			if p := r.k.now(); len(firsts) != events || p.Seq != events || len(p.Undelivered) > 0 {
				t.Errorf("seed %d: %d of %d events arrived; %+v", seed, len(firsts), events, p)
			}
			if r.e.most != r.Concurrency {
				t.Errorf("seed %d: %d requests were in progress at once", seed, r.e.most)
			}
		})
	}
}

// With 1,000 undelivered events it holds back all commands.
func TestAnEventThatFailsHoldsBackItsOwnCommand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failing uint64
		r := newRig(func(id string, _ int) (int, http.Header, time.Duration) {
			if seqOf(id) == failing {
				return 500, nil, time.Millisecond
			}
			return fine(id, 1)
		})
		failing = r.h.happen("stuck", "order.accepted")
		behind := r.h.happen("stuck", "order.delivered")
		for range 2 * windowEvents { // delivered events do not count
			r.h.happen("other", "order.accepted")
		}
		r.runFor(t, time.Minute)
		p := r.k.now()
		if got := len(r.e.firsts()); got != 2*windowEvents || r.e.attempts()[idAt(r, behind)] > 0 || r.e.attempts()[idAt(r, failing)] < 3 {
			t.Errorf("%d arrived, event %d was tried %d times", got, behind, r.e.attempts()[idAt(r, behind)])
		}
		if p.Seq != 0 || !slices.Equal(p.Undelivered, []uint64{failing, behind}) || p.Read.Seq != 2*windowEvents+2 || p.LastError != "HTTP 500 Internal Server Error" || p.NextAttempt == nil {
			t.Errorf("the position is %+v", p)
		}
		for range windowEvents {
			r.h.happen("stuck", "order.progressed")
		}
		waits := r.h.happen("third", "order.accepted")
		r.runFor(t, time.Minute)
		if r.e.attempts()[idAt(r, waits)] > 0 || len(r.k.now().Undelivered) != windowEvents {
			t.Errorf("with %d undelivered events another one was sent", len(r.k.now().Undelivered))
		}
		stop := r.start(t)
		time.Sleep(time.Minute)
		r.e.answers(fine)
		time.Sleep(10 * time.Minute)
		stop()
		if p := r.k.now(); p.Seq != waits || r.e.success[idAt(r, waits)] != 1 {
			t.Errorf("it does not go on: %+v", p)
		}
		for id, n := range r.e.success {
			if n != 1 {
				t.Errorf("%s was delivered %d times over two restarts in good order", id, n)
			}
		}
		for _, secret := range []string{"s3cr3t", "whsec", testSecret[6:]} {
			if strings.Contains(r.log.String(), secret) {
				t.Errorf("the log holds %s:\n%s", secret, r.log)
			}
		}
		if strings.Count(r.log.String(), "cannot deliver now") == 0 || strings.Count(r.log.String(), "delivers again") == 0 {
			t.Errorf("the log is\n%s", r.log)
		}
	})
}

// The event waits for the attempts in progress, but not for all events of 80 other commands or for
// their retries.
func TestEventsThatHangLeaveRoomForACommandThatDoesNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hang, events = 80, 5
		r := newRig(func(id string, _ int) (int, http.Header, time.Duration) {
			if seqOf(id) <= hang {
				return 200, nil, time.Hour
			}
			return fine(id, 1)
		})
		for n := range hang {
			r.h.happen(fmt.Sprint("bad-", n), "order.accepted")
		}
		stop := r.start(t)
		for _, after := range []time.Duration{25 * time.Second, time.Hour} { // during first attempts, and during retries
			time.Sleep(after)
			began, from := len(r.e.firsts()), time.Now()
			for range events {
				r.h.happen(fmt.Sprint("fine-", after), "order.progressed")
			}
			time.Sleep(3 * r.at.Timeout)
			for seq := uint64(hang + began + 1); seq <= uint64(hang+began+events); seq++ {
				if r.e.success[idAt(r, seq)] != 1 {
					t.Errorf("event %d of a command that does not hang had not arrived %s later", seq, time.Since(from))
				}
			}
		}
		if r.Stats().Oldest.IsZero() {
			t.Error("the metric says that nothing is undelivered")
		}
		r.e.answers(fine)
		time.Sleep(10 * time.Minute)
		if oldest := r.Stats().Oldest; !oldest.IsZero() {
			t.Errorf("all is delivered, and the metric has an event of %s", oldest)
		}
		stop()
		if p := r.k.now(); p.Seq != hang+2*events {
			t.Errorf("after it was mended: %+v", p)
		}
	})
}

func idAt(r *rig, seq uint64) string {
	return fmt.Sprintf("main/%s/%d", r.h.events[seq-1].Hash[:16], seq)
}

// Each other webhook gets every event within a second. The broken one gets all events once it is
// repaired.
func TestOneBrokenWebhookStopsNoOther(t *testing.T) {
	faults := map[string]func(string, int) (int, http.Header, time.Duration){
		"no answer": func(string, int) (int, http.Header, time.Duration) { return 204, nil, 1000 * time.Hour },
		"cut off":   func(string, int) (int, http.Header, time.Duration) { return 0, nil, 0 },
		"error":     func(string, int) (int, http.Header, time.Duration) { return 500, nil, 9 * time.Second },
		"refused":   func(string, int) (int, http.Header, time.Duration) { return 401, nil, 0 },
		"asked to wait": func(string, int) (int, http.Header, time.Duration) {
			return 429, http.Header{"Retry-After": {"86400"}}, 0
		},
		"gone for good":   func(string, int) (int, http.Header, time.Duration) { return 410, nil, 0 },
		"one event fails": func(id string, _ int) (int, http.Header, time.Duration) { return 500 - 296*int(seqOf(id)%2), nil, 0 },
	}
	for name, fault := range faults {
		synctest.Test(t, func(t *testing.T) {
			random, rigs := rand.New(rand.NewPCG(3, uint64(len(name)))), [3]*rig{newRig(fine), newRig(fine), newRig(fine)}
			broken, stops := random.IntN(len(rigs)), []func(){}
			for i, r := range rigs {
				if r.h, r.Events = rigs[0].h, rigs[0].h; i == broken {
					r.e.answers(fault)
				}
				stops = append(stops, r.start(t))
			}
			happened := map[uint64]time.Time{}
			for range 200 {
				time.Sleep(time.Duration(random.IntN(10_000)) * time.Millisecond)
				happened[rigs[0].h.happen(fmt.Sprint("command-", random.IntN(9)), "order.progressed")] = time.Now()
			}
			time.Sleep(time.Second)
			for i, r := range rigs {
				if i == broken {
					continue
				}
				r.e.mu.Lock()
				for seq, at := range happened {
					if tried := r.e.at[idAt(r, seq)]; len(tried) != 1 || tried[0].Sub(at) > time.Second {
						t.Errorf("%s: event %d of %s was sent at %s to another webhook", name, seq, at, tried)
					}
				}
				r.e.mu.Unlock()
			}
			rigs[broken].e.answers(fine)
			time.Sleep(25 * time.Hour)
			if got := len(rigs[broken].e.firsts()); got != len(happened) && name != "gone for good" {
				t.Errorf("%s: the webhook has %d of %d events after it was mended", name, got, len(happened))
			}
			for _, stop := range stops {
				stop()
			}
		})
	}
}

// The stored position is never ahead of the delivered events.
func TestAKilledSinkLeavesNothingOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random, pauses := rand.New(rand.NewPCG(7, 7)), rand.New(rand.NewPCG(7, 8))
		r := newRig(func(string, int) (int, http.Header, time.Duration) {
			return []int{204, 503}[random.IntN(2)], nil, time.Duration(random.IntN(900)) * time.Millisecond
		})
		for n := range 300 {
			r.h.happen(fmt.Sprint(n%40), "order.progressed")
		}
		stop := r.start(t)
		for range 100 {
			time.Sleep(time.Duration(pauses.IntN(300)) * time.Millisecond)
			p := r.k.now() // as another runner would read it now
			arrived := map[uint64]bool{}
			for _, seq := range r.e.firsts() {
				arrived[seq] = true
			}
			for seq := uint64(1); seq <= p.Read.Seq; seq++ {
				if !arrived[seq] && (seq <= p.Seq || !slices.Contains(p.Undelivered, seq)) {
					t.Fatalf("event %d did not arrive, and the position is %+v", seq, p)
				}
			}
		}
		stop()
	})
}

// The position is written at most once a second, and not at all while nothing happens.
func TestThePositionIsWrittenOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(fine)
		stop := r.start(t)
		for range 2000 {
			r.h.happen("", "ledger.reconciled")
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		stop()
		if r.k.saves < 10 || r.k.saves > 14 || r.k.now().Seq != 2000 {
			t.Errorf("%d writes in ten seconds, to %+v", r.k.saves, r.k.now().Mark)
		}
	})
}

// The waits are random, from one second on.
func TestRetriesBackOffToFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(func(string, int) (int, http.Header, time.Duration) { return 500, nil, 0 })
		r.Random = func() float64 { return .999999 }
		r.h.happen("a", "order.accepted")
		r.runFor(t, time.Hour)
		at := r.e.at[idAt(r, 1)]
		for i, want := range []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
			if got := at[i+1].Sub(at[i]).Seconds(); got < want*.99 || got > want {
				t.Errorf("the wait before attempt %d is %.3f s, want %.0f", i+2, got, want)
			}
		}
	})
}

// Retry-After is in seconds or a date, and at most an hour counts. With 429 and 503 the whole
// endpoint rests, with other statuses only the event.
func TestAnEndpointThatAsksToWaitIsLeftAlone(t *testing.T) {
	for _, c := range []struct {
		status int
		text   string
		want   time.Duration
	}{{429, "120", 2 * time.Minute}, {503, "999999", time.Hour}, {429, "99999999999999999999", time.Hour}, {429, "date", 90 * time.Second}, {429, "soon", 0}, {503, "-5", 0}, {500, "120", 2 * time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			asked, want := c.text, c.want
			if c.text == "date" {
				asked = time.Now().UTC().Add(want).Format(http.TimeFormat)
			}
			r := newRig(func(id string, attempt int) (int, http.Header, time.Duration) {
				if seqOf(id) == 1 && attempt == 1 {
					return c.status, http.Header{"Retry-After": {asked}}, 0
				}
				return 204, nil, 0
			})
			r.h.happen("a", "order.accepted")
			stop := r.start(t)
			time.Sleep(time.Second / 10)
			r.h.happen("b", "order.accepted")
			time.Sleep(2 * time.Hour)
			stop()
			first, other := r.e.at[idAt(r, 1)], r.e.at[idAt(r, 2)]
			if len(first) != 2 || first[1].Sub(first[0]) < want || first[1].Sub(first[0]) > want+time.Second || (other[0].Sub(first[0]) < want) != (c.status == 500) {
				t.Errorf("%d, %s: %v, and the other one at %v", c.status, c.text, first, other)
			}
		})
	}
}

// The position shows the time of the next attempt and the reason, although another event would be due
// earlier.
func TestAPositionShowsTheWaitOfTheWholeEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(func(id string, _ int) (int, http.Header, time.Duration) {
			if seqOf(id) == 2 {
				return 503, http.Header{"Retry-After": {"600"}}, 0
			}
			return 500, nil, 0
		})
		r.h.happen("a", "order.accepted")
		stop := r.start(t)
		time.Sleep(time.Second / 10)
		asked := time.Now()
		r.h.happen("b", "order.accepted")
		time.Sleep(5 * time.Minute)
		until := asked.Add(10 * time.Minute)
		if p := r.k.now(); p.NextAttempt == nil || p.NextAttempt.Sub(until).Abs() > time.Second || !strings.Contains(p.LastError, "asks to wait until "+until.UTC().Format(time.RFC3339)) {
			t.Errorf("%+v, and nothing is sent until %s", p, until)
		}
		stop()
	})
}

// The endpoint gets events again after the next start of the program. The log has an error.
func TestAnEndpointThatIsGoneGetsNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(func(string, int) (int, http.Header, time.Duration) { return 410, nil, 0 })
		r.h.happen("a", "order.accepted")
		r.h.happen("b", "order.accepted")
		r.runFor(t, time.Hour)
		r.runFor(t, time.Hour) // another run in the same process
		if n := len(r.e.attempts()); n > 2 || r.e.attempts()[idAt(r, 1)] != 1 || !strings.Contains(r.log.String(), "level=error") || r.k.now().Stopped == "" || r.k.now().NextAttempt != nil || r.k.now().Seq != 0 {
			t.Errorf("%v\n%+v\n%s", r.e.attempts(), r.k.now(), r.log)
		}
		again := newRig(fine)
		again.h, again.k = r.h, r.k
		again.Events, again.Positions = r.h, r.k
		again.runFor(t, time.Minute)
		if p := r.k.now(); p.Seq != 2 || p.Stopped != "" {
			t.Errorf("a new start does not go on: %+v", p)
		}
	})
}

// The next run in the same process remembers it.
func TestA410DuringAStopIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(func(string, int) (int, http.Header, time.Duration) { return 410, nil, time.Second })
		r.h.happen("a", "order.accepted")
		r.runFor(t, 500*time.Millisecond)
		if p := r.k.now(); p.Stopped == "" || !strings.Contains(r.log.String(), "level=error") {
			t.Errorf("%+v\n%s", p, r.log)
		}
		r.h.happen("b", "order.accepted")
		r.runFor(t, time.Hour)
		if n := len(r.e.attempts()); n != 1 {
			t.Errorf("%d events were sent", n)
		}
	})
}

// The events that replaced the old history are delivered.
func TestAnUnwantedEventShowsAnotherHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(fine)
		r.Wants = func(eventType string) bool { return eventType == "order.delivered" }
		for range 5 {
			r.h.happen("old", "order.delivered")
		}
		defer r.start(t)()
		time.Sleep(time.Minute)
		synctest.Wait()
		r.h.cut(3)
		for _, eventType := range []string{"order.delivered", "order.delivered", "order.accepted", "order.delivered"} {
			r.h.happen("new", eventType)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, seq := range []uint64{4, 5, 7} {
			if n := r.e.success[idAt(r, seq)]; n != 1 {
				t.Errorf("event %d of the new history arrived %d times", seq, n)
			}
		}
	})
}

// The unreadable event is logged once.
func TestAnUnreadableEventStopsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(fine)
		for range 3 {
			r.h.happen("a", "order.accepted")
		}
		r.h.events[1].Data = []byte("{")
		r.runFor(t, time.Hour)
		if p, n := r.k.now(), strings.Count(r.log.String(), "level=error"); p.Seq != 3 || len(r.e.firsts()) != 2 || n != 1 {
			t.Errorf("%+v, sent %v, logged %d times:\n%s", p, r.e.firsts(), n, r.log)
		}
	})
}

// The events are delivered once the secret can be read.
func TestAWebhookWithoutASecretKeepsItsEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(fine)
		var readable atomic.Bool
		r.Connect = func() (Endpoint, error) {
			if !readable.Load() {
				return Endpoint{}, errors.New("webhook billing has no secret\nset secret_file")
			}
			return r.at, nil
		}
		r.h.happen("a", "order.accepted")
		stop := r.start(t)
		time.Sleep(time.Hour)
		synctest.Wait()
		if p := r.k.now(); p.LastError != "webhook billing has no secret: set secret_file" || p.Seq != 0 || len(r.e.firsts()) > 0 {
			t.Errorf("without a secret: %+v, sent %v", p, r.e.firsts())
		}
		if n := strings.Count(r.log.String(), "has no secret"); n != 1 {
			t.Errorf("logged %d times:\n%s", n, r.log)
		}
		if s := r.Stats(); !s.Running {
			t.Error("the lag of the webhook is not measured")
		}
		readable.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		stop()
		if p := r.k.now(); p.LastError != "" || p.Seq != 1 || len(r.e.firsts()) != 1 {
			t.Errorf("with a secret: %+v, sent %v", p, r.e.firsts())
		}
	})
}

// The webhook also gets only its event types.
func TestAWebhookBeginsWhereItIsSaidTo(t *testing.T) {
	for from, want := range map[string][]uint64{FromNow: {5, 7}, FromStart: {1, 3, 5, 7}} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(fine)
			r.From, r.Wants = from, func(eventType string) bool { return eventType == "order.delivered" }
			happen := func() {
				for _, eventType := range []string{"order.delivered", "order.accepted"} {
					r.h.happen("a", eventType)
				}
			}
			happen()
			happen()
			r.runFor(t, time.Minute)
			happen()
			happen()
			r.runFor(t, time.Minute)
			if got := r.e.firsts(); !slices.Equal(got, want) || r.k.now().Seq != 8 {
				t.Errorf("from %s: %v, %+v", from, got, r.k.now())
			}
		})
	}
}

// A restore replaced events that had already arrived. The new events arrive too, and few common
// events arrive again.
func TestAHistoryThatWasCutIsDeliveredFromTheCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(fine)
		stop := r.start(t)
		for range 1000 {
			r.h.happen("", "ledger.reconciled")
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		stop()
		const common = 900
		for n, more := range []int{10, 200} { // shorter than the old history, then longer
			r.h.cut(common)
			for range more {
				r.h.happen("", fmt.Sprintf("ledger.recorded%d", n))
			}
			r.runFor(t, time.Minute)
			for seq := uint64(common + 1); seq <= uint64(len(r.h.events)); seq++ {
				if r.e.success[idAt(r, seq)] != 1 {
					t.Errorf("event %d of the new history arrived %d times", seq, r.e.success[idAt(r, seq)])
				}
			}
		}
		again := 0
		for seq := uint64(1); seq <= common; seq++ {
			again += r.e.success[idAt(r, seq)] - 1
		}
		if again > 600 || !strings.Contains(r.log.String(), "another one after this event") {
			t.Errorf("%d events came again\n%s", again, r.log)
		}
	})
}

// None of the position's marks is in the other ledger.
func TestTheHistoryOfAnotherLedgerIsDeliveredAsAWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(fine)
		r.k.p, r.k.revision = positions.Position{Mark: positions.Mark{Seq: 3, Hash: "x"}, Read: positions.Mark{Seq: 4, Hash: "y"}}, 1
		r.h.progress(6)
		r.runFor(t, time.Minute)
		if got := r.e.firsts(); len(got) != 6 || r.k.now().Seq != 6 {
			t.Errorf("%v %+v", got, r.k.now())
		}
	})
}

// The sink uses the new position immediately, even while nothing happens, and logs who moved it.
func TestAPositionThatAPersonMovedIsTakenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(fine)
		r.h.progress(10)
		stop := r.start(t)
		time.Sleep(time.Minute)
		before := positions.Mark{Seq: 7, Hash: r.h.events[6].Hash}
		_, revision, _ := r.k.Load(t.Context())
		revision, err := r.k.Save(t.Context(), positions.Position{Mark: before, Read: before, By: "ada", Reason: "restored"}, revision)
		if err != nil {
			t.Fatal(err)
		}
		r.Written(revision)
		time.Sleep(time.Minute)
		_, revision, _ = r.k.Load(t.Context())
		r.Written(revision) // the sink's own write
		stop()
		for seq := uint64(1); seq <= 10; seq++ {
			if want := 1 + int(seq/8); r.e.success[idAt(r, seq)] != want {
				t.Errorf("event %d arrived %d times", seq, r.e.success[idAt(r, seq)])
			}
		}
		if p := r.k.now(); p.Seq != 10 || p.By != "" || strings.Count(r.log.String(), "by=ada") != 1 {
			t.Errorf("%+v\n%s", p, r.log)
		}
	})
}

// The bucket was removed while the sink ran.
func TestAPositionThatIsTakenAwayIsWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(fine)
		r.From = FromNow
		stop := r.start(t)
		time.Sleep(time.Second)
		r.h.happen("a", "order.progressed")
		time.Sleep(time.Minute)
		r.k.mu.Lock()
		r.k.p, r.k.revision = positions.Position{}, 0
		r.k.mu.Unlock()
		r.h.progress(5)
		time.Sleep(time.Minute)
		stop()
		if p := r.k.now(); p.Seq != 6 || len(r.e.firsts()) != 6 {
			t.Errorf("%+v, %v arrived", p, r.e.firsts())
		}
	})
}

// An operator allowed the archive to remove events that the webhook had not delivered.
func TestWhatAnArchiveRemovedIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(fine)
		r.h.progress(10)
		r.runFor(t, time.Minute)
		r.h.progress(10)
		r.h.first = 16
		r.runFor(t, time.Minute)
		if got := r.e.firsts(); len(got) != 15 || r.k.now().Seq != 20 || !strings.Contains(r.log.String(), "were removed from the stream before") {
			t.Errorf("%v\n%s", got, r.log)
		}
	})
}

// The number of marks does not depend on the length of the journal.
func TestMarksReachFarBackAndAreFew(t *testing.T) {
	var marks []positions.Mark
	for seq := uint64(1); seq < 3_000_000; seq += 13 {
		marks = thinMarks(marks, positions.Mark{Seq: seq, Hash: "x"}, seq+13)
	}
	if len(marks) > 40 || marks[0].Seq > 100 {
		t.Fatalf("%d marks from %d on", len(marks), marks[0].Seq)
	}
	for i := range len(marks) - 1 {
		if near, far := 3_000_000-marks[i+1].Seq, 3_000_000-marks[i].Seq; far > 8*near {
			t.Errorf("there is none between %d and %d events back", near, far)
		}
	}
}
