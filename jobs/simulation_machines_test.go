package jobs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"perennial/jobs/command"
	"perennial/jobs/desk"
	"perennial/ledger"
	"perennial/ledger/chain"
	"perennial/ledger/testrun"
	"perennial/upstream"
)

// simMachines are several machines of one account. Each has its own clock and its own ledger
// file, which follows a stream. A life may begin on any of them, and a frozen life continues
// after another has begun. The stream sometimes loses its replies, with or without the rows.
type simMachines struct {
	random  *rand.Rand
	ledgers []*ledger.Ledger
	skews   []time.Duration // of the machines' clocks; of the present one in simulation.skew
	at      int             // the machine of the present life, or of the last one
	rows    []chain.Row     // of the stream
	leading *ledger.Leadership
	frozen  *frozenLife           // nil: none
	sender  map[*http.Request]int // of requests that are held up
	woken   int                   // requests that a machine sent late, while another one led
	moves   int                   // lives that began elsewhere than the one before
	unknown int                   // publications without an answer
	fenced  int                   // publications of a life that was replaced
	unsaid  []desk.Recording
}

// frozenLife is a life whose machine has stopped. It does not know that another life begins.
type frozenLife struct {
	at      int
	runner  *Runner
	leading *ledger.Leadership
}

func (s *simulation) machinesOf(ctx context.Context, template []byte, n int) {
	m := &simMachines{random: rand.New(rand.NewPCG(s.seed, 0x94d049bb133111eb))}
	for i := range n {
		path := filepath.Join(s.dir, fmt.Sprintf("machine%d.ledger.db", i))
		s.must(os.WriteFile(path, template, 0o600), "template")
		l, err := ledger.Open(ctx, ledger.Config{Path: path, Clock: s.now, Follows: true})
		s.must(err, "ledger")
		m.ledgers = append(m.ledgers, l)
	}
	m.skews, m.sender = make([]time.Duration, n), map[*http.Request]int{}
	_ = s.ledger.Close()
	s.machines, s.ledger = m, m.ledgers[0]
}

func (s *simulation) holder() string {
	if s.machines == nil {
		return "simulation"
	}
	return fmt.Sprintf("machine%d", s.machines.at)
}

// takeOver begins a life on one of the machines, which folds the stream and leads.
func (s *simulation) takeOver(ctx context.Context) {
	m := s.machines
	if m == nil {
		return
	}
	if m.leading != nil {
		m.leading.End()
	}
	before := m.at
	m.at = m.random.IntN(len(m.ledgers))
	if m.frozen != nil && m.at == m.frozen.at {
		m.at = (m.at + 1) % len(m.ledgers)
	}
	if m.at != before {
		m.moves++
	}
	s.goTo(m.at, before)
	s.fold(ctx, s.ledger)
	var err error
	m.leading, err = s.ledger.Lead(s.toStream)
	s.must(err, "lead")
	s.sayf("%s leads behind row %d", s.holder(), len(m.rows))
	s.sayAgain(ctx)
}

// standStill stops a leader, with a chance of one half, between its intent and its request.
// The request is sent when the machine continues, perhaps after another runner has sent it
// too.
func (s *simulation) standStill(request *http.Request) {
	m := s.machines
	if m == nil {
		return
	}
	m.sender[request] = m.at
	if m.random.IntN(2) == 0 {
		panic(crash{"a machine that stands still in the middle of a request"})
	}
}

// wakesUp counts a request that a machine sends after another has taken over.
func (s *simulation) wakesUp(request *http.Request) {
	if m := s.machines; m != nil && m.sender[request] != m.at {
		m.woken++
	}
}

// goTo switches to a machine, from the one before.
func (s *simulation) goTo(at, before int) {
	m := s.machines
	m.skews[before] = s.skew
	m.at, s.skew, s.ledger = at, m.skews[at], m.ledgers[at]
}

// amongMachines does what may happen beside a step of the present life: a standby folds, the
// life's machine stops, or a stopped one continues.
func (s *simulation) amongMachines(ctx context.Context) {
	m := s.machines
	if m == nil {
		return
	}
	switch m.random.IntN(24) {
	case 0, 1, 2:
		if i := m.random.IntN(len(m.ledgers)); i != m.at && (m.frozen == nil || i != m.frozen.at) {
			s.fold(ctx, m.ledgers[i])
		}
	case 3:
		if m.frozen == nil && s.runner != nil {
			m.frozen = &frozenLife{m.at, s.runner, m.leading}
			s.runner, m.leading, s.crashIn = nil, nil, 0
			s.sayf("%s stands still", s.holder())
		}
	case 4:
		s.thaw(ctx)
	}
}

// thaw continues a life that may have been replaced. It may send no POST whose intent is not
// on the stream.
func (s *simulation) thaw(ctx context.Context) {
	m := s.machines
	if m.frozen == nil {
		return
	}
	life, present, runner, leading := m.frozen, m.at, s.runner, m.leading
	m.frozen = nil
	s.goTo(life.at, present)
	s.runner, m.leading = life.runner, life.leading
	s.sayf("%s goes on, where row %d is the stream's last", s.holder(), len(m.rows))
	for range 3 {
		if s.runner != nil {
			s.alive(func() { s.work(ctx) })
			s.endLost()
		}
	}
	life.leading.End()
	s.sayf("%s follows", s.holder())
	s.goTo(present, life.at)
	s.runner, m.leading = runner, leading
}

// allMelt continues a frozen life, if there is one, and removes all clock skew.
func (s *simulation) allMelt(ctx context.Context) {
	if s.machines == nil {
		return
	}
	s.thaw(ctx)
	clear(s.machines.skews)
	s.skew = 0
}

func (s *simulation) fold(ctx context.Context, l *ledger.Ledger) {
	head, _, err := l.Head(ctx)
	s.must(err, "head")
	s.must(l.Fold(ctx, s.machines.rows[head:]), "fold")
}

// errUnanswered is the error of a publication whose reply is lost.
var errUnanswered = errors.New("the simulated stream did not answer")

// toStream stores rows after the stream's last one. While there are faults, the reply may be
// lost, before or after the rows are stored.
func (s *simulation) toStream(_ context.Context, rows []chain.Row) error {
	m := s.machines
	if rows[0].Seq != int64(len(m.rows))+1 {
		m.fenced++
		return fmt.Errorf("row %d does not follow the stream's %d", rows[0].Seq, len(m.rows))
	}
	fate := 100
	if s.faulty {
		fate = m.random.IntN(60)
	}
	if fate > 0 {
		m.rows = append(m.rows, slices.Clone(rows)...)
	}
	if fate > 1 {
		return nil
	}
	m.unknown++
	return errUnanswered
}

// record makes an operator record money. If it is unknown whether the record is on the stream,
// the operator repeats it, under the same id, in the next life.
func (s *simulation) record(ctx context.Context, x desk.Recording) {
	x.ID = fmt.Sprintf("by-hand-%d", s.counts.steps)
	err := s.recordAtLast(ctx, x)
	if s.machines != nil && ledger.Ended(err) {
		s.machines.unsaid = append(s.machines.unsaid, x)
	}
	s.must(err, "record")
}

// madeByHand is the read of an order that a person made at the provider.
func madeByHand(context.Context, string) (upstream.Order, error) { return upstream.Order{}, nil }

// recordAtLast is Record by an operator who sets the clock and waits if the clock is too slow.
func (s *simulation) recordAtLast(ctx context.Context, x desk.Recording) error {
	_, _, err := desk.Record(ctx, s.ledger, x, madeByHand)
	if _, refused := errors.AsType[*command.RefusedError](err); refused {
		s.skew, s.time = 0, s.time.Add(2*time.Hour)
		s.sayf("the clock is set, and the record is made two hours later")
		_, _, err = desk.Record(ctx, s.ledger, x, madeByHand)
	}
	return err
}

// sayAgain repeats records that an earlier life may not have stored.
func (s *simulation) sayAgain(ctx context.Context) {
	for m := s.machines; len(m.unsaid) > 0; m.unsaid = m.unsaid[1:] {
		s.must(s.recordAtLast(ctx, m.unsaid[0]), "record again")
	}
}

// endLost ends a life whose ledger no longer leads.
func (s *simulation) endLost() {
	if m := s.machines; m == nil || s.runner == nil || m.leading.Err() == nil {
		return
	}
	s.sayf("%s has lost the stream", s.holder())
	s.runner = nil
}

// sameEverywhere folds the rest on every machine, and checks that all ledgers verify and have
// the same history.
func (s *simulation) sameEverywhere(ctx context.Context) {
	if s.machines == nil {
		return
	}
	s.machines.leading.End()
	for i, l := range s.machines.ledgers {
		s.fold(ctx, l)
		_, hash, err := l.Head(ctx)
		s.must(err, "head")
		if last := s.machines.rows[len(s.machines.rows)-1]; hash != last.Hash {
			s.failf("machine%d ends with %s and the stream with %d:%s", i, hash, last.Seq, last.Hash)
		}
		if s.seed%6 == uint64(i) { // as with one machine, where it is not done for each seed either
			_, err := l.VerifyWith(ctx)
			s.must(err, fmt.Sprintf("verify machine%d", i))
		}
	}
}

// seedsOnMachines is how many of -sim.seeds run on several machines: each takes as long as
// four on one.
func seedsOnMachines() int {
	if testrun.Check {
		return max(*simSeeds/6, min(*simSeeds, 30))
	}
	return max(*simSeeds/12, min(*simSeeds, 16))
}

// TestSimulationOnSeveralMachines is TestSimulation on three machines: lives begin on any of
// them, after publications whose replies are lost.
func TestSimulationOnSeveralMachines(t *testing.T) {
	n := seedsOnMachines()
	template, dir := ledgerTemplate(t), simDir(t)
	var workers errgroup.Group
	workers.SetLimit(2 * runtime.NumCPU())
	results := make([]*simulation, n)
	for i := range n {
		workers.Go(func() error {
			s := simulateOn(t.Context(), template, dir, *simFirst+uint64(i), 3)
			results[i] = &simulation{seed: s.seed, counts: s.counts, failure: s.failure, machines: s.machines}
			if s.failure != "" || *simTrace {
				results[i].trace = s.trace
			}
			return nil
		})
	}
	_ = workers.Wait()
	var sum simCounts
	var moves, unknown, fenced, woken int
	for _, s := range results {
		sum, moves, unknown, fenced = sum.plus(s.counts), moves+s.machines.moves, unknown+s.machines.unknown, fenced+s.machines.fenced
		woken += s.machines.woken
		if s.failure != "" {
			t.Errorf("seed %d: %s\n%s\nagain with -run %s -sim.first %d -sim.trace", s.seed, s.failure, s.tail(), t.Name(), s.seed)
		}
	}
	t.Logf("%d seeds from %d: %s, %d take-overs, %d publications without an answer, %d fenced, %d requests of a holder that woke up", n, *simFirst, sum, moves, unknown, fenced, woken)
	if moves < n || unknown < n/4 || fenced < n/4 || woken < n/8 {
		t.Errorf("%d take-overs, %d lost answers, %d fenced publications and %d late requests in %d seeds prove nothing", moves, unknown, fenced, woken, n)
	}
}
