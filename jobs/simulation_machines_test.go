package jobs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sync/errgroup"

	"perennial/ledger"
)

// simMachines are several machines of one account: each has its own ledger file, which
// follows a stream, and a life begins on any of them. The stream's answers are lost now
// and then, with the rows and without them.
type simMachines struct {
	random  *rand.Rand
	ledgers []*ledger.Ledger
	at      int          // the machine of the present life, or of the last one
	rows    []ledger.Row // of the stream
	leading *ledger.Leadership
	moves   int // lives that began elsewhere than the one before
	unknown int // publications without an answer
	unsaid  []Recording
}

// machinesOf gives a simulation its machines.
func (s *simulation) machinesOf(ctx context.Context, template []byte, n int) {
	m := &simMachines{random: rand.New(rand.NewPCG(s.seed, 0x94d049bb133111eb))}
	for i := range n {
		path := filepath.Join(s.dir, fmt.Sprintf("machine%d.ledger.db", i))
		s.must(os.WriteFile(path, template, 0o600), "template")
		l, err := ledger.Open(ctx, ledger.Config{Path: path, Clock: s.now, Follows: true})
		s.must(err, "ledger")
		m.ledgers = append(m.ledgers, l)
	}
	_ = s.ledger.Close()
	s.machines, s.ledger = m, m.ledgers[0]
}

// holder names the machine of the life.
func (s *simulation) holder() string {
	if s.machines == nil {
		return "simulation"
	}
	return fmt.Sprintf("machine%d", s.machines.at)
}

// takeOver begins a life on one of the machines: it folds what the stream has, and leads.
func (s *simulation) takeOver(ctx context.Context) {
	m := s.machines
	if m == nil {
		return
	}
	if m.leading != nil {
		m.leading.End()
	}
	before := m.at
	if m.at = m.random.IntN(len(m.ledgers)); m.at != before {
		m.moves++
	}
	s.ledger = m.ledgers[m.at]
	s.fold(ctx, s.ledger)
	var err error
	m.leading, err = s.ledger.Lead(s.toStream)
	s.must(err, "lead")
	s.sayf("%s leads behind row %d", s.holder(), len(m.rows))
	s.sayAgain(ctx)
}

func (s *simulation) fold(ctx context.Context, l *ledger.Ledger) {
	head, _, err := l.Head(ctx)
	s.must(err, "head")
	s.must(l.Fold(ctx, s.machines.rows[head:]), "fold")
}

// errUnanswered is what a publication ends with whose answer is lost.
var errUnanswered = errors.New("the simulated stream did not answer")

// toStream stores rows behind the stream's last one. While there are faults, an answer
// may be lost before or behind that.
func (s *simulation) toStream(_ context.Context, rows []ledger.Row) error {
	m := s.machines
	if rows[0].Seq != int64(len(m.rows))+1 {
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

// record has a person record money. Where it is not known whether that is on the stream,
// the same person says the same again, under the same id, to the next life.
func (s *simulation) record(ctx context.Context, x Recording) {
	if s.machines != nil {
		x.ID = fmt.Sprintf("by-hand-%d", s.counts.steps)
	}
	_, err := Record(ctx, s.ledger, x)
	if s.machines != nil && ledger.Ended(err) {
		s.machines.unsaid = append(s.machines.unsaid, x)
	}
	s.must(err, "record")
}

// sayAgain records what an earlier life may not have recorded.
func (s *simulation) sayAgain(ctx context.Context) {
	for m := s.machines; len(m.unsaid) > 0; m.unsaid = m.unsaid[1:] {
		_, err := Record(ctx, s.ledger, m.unsaid[0])
		s.must(err, "record again")
	}
}

// endLost ends a life whose ledger does not lead any more.
func (s *simulation) endLost() {
	if s.machines == nil || s.runner == nil || s.machines.leading.Err() == nil {
		return
	}
	s.sayf("%s has lost the stream", s.holder())
	s.runner = nil
}

// sameEverywhere folds the rest on every machine: all ledgers are whole and one history.
func (s *simulation) sameEverywhere(ctx context.Context) {
	if s.machines == nil {
		return
	}
	s.machines.leading.End()
	for i, l := range s.machines.ledgers {
		s.fold(ctx, l)
		v, err := l.VerifyWith(ctx)
		s.must(err, fmt.Sprintf("verify machine%d", i))
		if last := s.machines.rows[len(s.machines.rows)-1]; v.Head.Hash != last.Hash {
			s.failf("machine%d ends with %s and the stream with %d:%s", i, v.Head, last.Seq, last.Hash)
		}
	}
}

// TestSimulationOnSeveralMachines is TestSimulation with three machines: lives begin on
// any of them, behind publications whose answers are lost.
func TestSimulationOnSeveralMachines(t *testing.T) {
	n := max(*simSeeds/20, 60)
	if testing.Short() {
		n = min(n, 10) // beside the race detector
	}
	template, dir := ledgerTemplate(t), simDir(t)
	var workers errgroup.Group
	workers.SetLimit(runtime.NumCPU())
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
	var moves, unknown int
	for _, s := range results {
		sum, moves, unknown = sum.plus(s.counts), moves+s.machines.moves, unknown+s.machines.unknown
		if s.failure != "" {
			t.Errorf("seed %d: %s\n%s\nagain with -run %s -sim.first %d -sim.trace", s.seed, s.failure, s.tail(), t.Name(), s.seed)
		}
	}
	t.Logf("%d seeds from %d: %s, %d take-overs, %d publications without an answer", n, *simFirst, sum, moves, unknown)
	if moves < n || unknown < n/4 {
		t.Errorf("%d take-overs and %d lost answers in %d seeds prove nothing", moves, unknown, n)
	}
}
