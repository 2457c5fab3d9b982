// Examples and random cases of the placement's guarantees.
package placement

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func names(prefix string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprint(prefix, i)
	}
	return all
}

// fleet returns nodes that can all lead every account, and hold the accounts of held.
func fleet(nodes, accounts []string, held map[string]string) []Node {
	var all []Node
	for _, name := range nodes {
		n := Node{Name: name}
		for _, a := range accounts {
			if held[a] == name {
				n.Holds = append(n.Holds, a)
			} else {
				n.Ready = append(n.Ready, a)
			}
		}
		all = append(all, n)
	}
	return all
}

func shares(placed map[string]string, nodes []string) (all []int) {
	for _, n := range nodes {
		count := 0
		for _, at := range placed {
			if at == n {
				count++
			}
		}
		all = append(all, count)
	}
	return all
}

func moved(before, after map[string]string) (all []string) {
	for a, at := range after {
		if before[a] != at {
			all = append(all, a)
		}
	}
	slices.Sort(all)
	return all
}

// drawn is a random state: nodes and accounts, some of which are held.
func drawn(t *rapid.T) (nodes, accounts []string, held map[string]string) {
	nodes = names("node-", rapid.IntRange(1, 7).Draw(t, "nodes"))
	accounts = names("account-", rapid.IntRange(0, 25).Draw(t, "accounts"))
	held = map[string]string{}
	for _, a := range accounts {
		if n := rapid.IntRange(-1, len(nodes)-1).Draw(t, a); n >= 0 {
			held[a] = nodes[n]
		}
	}
	return nodes, accounts, held
}

func TestTenAccountsOnThreeNodes(t *testing.T) {
	nodes, accounts := names("n", 3), names("a", 10)
	got := shares(Of(fleet(nodes, accounts, nil), accounts, nil), nodes)
	if slices.Min(got) != 3 || slices.Max(got) != 4 {
		t.Errorf("shares %v", got)
	}
}

func TestSharesAreEvenToWithinOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, accounts, held := drawn(t)
		placed := Of(fleet(nodes, accounts, held), accounts, nil)
		if len(placed) != len(accounts) {
			t.Fatalf("%d of %d accounts are placed", len(placed), len(accounts))
		}
		if got := shares(placed, nodes); slices.Max(got)-slices.Min(got) > 1 {
			t.Fatalf("shares %v", got)
		}
	})
}

// A held account moves only if its node's share is too large, or if another node's share would stay
// too small.
func TestAsFewAccountsMoveAsEvennessNeeds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, accounts, held := drawn(t)
		moves := 0
		for _, a := range moved(held, Of(fleet(nodes, accounts, held), accounts, nil)) {
			if held[a] != "" {
				moves++
			}
		}
		low, free := len(accounts)/len(nodes), len(accounts)-len(held)
		high, larger := low, len(accounts)%len(nodes)
		if larger > 0 {
			high++
		}
		tooMany, tooFew := 0, -free
		for _, n := range shares(held, nodes) {
			tooMany += max(n-high, 0)
			tooFew += max(low-n, 0)
		}
		if needed := max(tooMany, tooFew, atLeast(shares(held, nodes), low, larger)); moves != needed {
			t.Fatalf("%d accounts move, and %d need to: %v", moves, needed, shares(held, nodes))
		}
	})
}

// atLeast returns how many accounts must leave their nodes if the largest shares stay the largest.
// The first larger nodes keep low+1 accounts, the others low.
func atLeast(shares []int, low, larger int) (leave int) {
	slices.SortFunc(shares, func(a, b int) int { return b - a })
	for i, n := range shares {
		keeps := low
		if i < larger {
			keeps++
		}
		leave += max(n-keeps, 0)
	}
	return leave
}

func TestALostNodeMovesItsAccountsAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, accounts, held := drawn(t)
		before := Of(fleet(nodes, accounts, held), accounts, nil)
		lost := rapid.SampledFrom(nodes).Draw(t, "lost")
		rest := slices.DeleteFunc(slices.Clone(nodes), func(n string) bool { return n == lost })
		for _, a := range moved(before, Of(fleet(rest, accounts, before), accounts, nil)) {
			if before[a] != lost {
				t.Fatalf("%s moves from %s, and %s was lost", a, before[a], lost)
			}
		}
	})
}

func TestANodeThatComesTakesWhatEvennessNeeds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, accounts, held := drawn(t)
		before := Of(fleet(nodes, accounts, held), accounts, nil)
		more := append(slices.Clone(nodes), "node-new")
		after := Of(fleet(more, accounts, before), accounts, nil)
		all := moved(before, after)
		for _, a := range all {
			if after[a] != "node-new" {
				t.Fatalf("%s moves to %s", a, after[a])
			}
		}
		if want := len(accounts) / len(more); len(all) != want {
			t.Fatalf("%d accounts move, and %d need to", len(all), want)
		}
	})
}

func TestTheAnswerIsFinal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, accounts, held := drawn(t)
		once := Of(fleet(nodes, accounts, held), accounts, nil)
		if again := Of(fleet(nodes, accounts, once), accounts, nil); !maps.Equal(once, again) {
			t.Fatalf("%v, and then %v", once, again)
		}
	})
}

func TestTheOrderOfTheInputDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, accounts, held := drawn(t)
		input := fleet(nodes, accounts, held)
		pins := map[string]string{"account-1": nodes[0], "account-2": "gone"}
		want := Of(input, accounts, pins)
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		for _, n := range input {
			random.Shuffle(len(n.Holds), reflect.Swapper(n.Holds))
			random.Shuffle(len(n.Ready), reflect.Swapper(n.Ready))
		}
		random.Shuffle(len(input), reflect.Swapper(input))
		random.Shuffle(len(accounts), reflect.Swapper(accounts))
		if got := Of(input, accounts, pins); !maps.Equal(want, got) {
			t.Fatalf("%v, and in another order %v", want, got)
		}
	})
}

// The other accounts are distributed around the pins.
func TestPinsWinWhileTheirNodeIsAble(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, accounts, held := drawn(t)
		pins := map[string]string{}
		for _, a := range accounts {
			if n := rapid.IntRange(-2, len(nodes)).Draw(t, "pin of "+a); n >= 0 {
				pins[a] = append(nodes, "gone")[n]
			}
		}
		placed := Of(fleet(nodes, accounts, held), accounts, pins)
		load := shares(placed, nodes)
		for a, at := range placed {
			if pin := pins[a]; pin != "" && pin != "gone" {
				if at != pin {
					t.Fatalf("%s is pinned to %s and placed at %s", a, pin, at)
				}
				continue
			}
			if n := load[slices.Index(nodes, at)]; n > slices.Min(load)+1 {
				t.Fatalf("%s, which is free, is one of %d: %v", a, n, load)
			}
		}
	})
}

// The abilities are random, and the shares are as even as they allow.
func TestOnlyNodesThatAreAbleGetAnAccount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, accounts, held := drawn(t)
		input := fleet(nodes, accounts, held)
		able := map[string]map[string]bool{}
		for i := range input {
			n := &input[i]
			n.Ready = slices.DeleteFunc(n.Ready, func(a string) bool { return rapid.Bool().Draw(t, n.Name+" cannot run "+a) })
			able[n.Name] = map[string]bool{}
			for _, a := range slices.Concat(n.Holds, n.Ready) {
				able[n.Name][a] = true
			}
		}
		placed := Of(input, accounts, nil)
		load := shares(placed, nodes)
		for _, a := range accounts {
			at := placed[a]
			for i, n := range nodes {
				if able[n][a] && (at == "" || load[slices.Index(nodes, at)] > load[i]+1) {
					t.Fatalf("%s is at %q, and %s could have it: %v", a, at, n, load)
				}
			}
			if at != "" && !able[at][a] {
				t.Fatalf("%s is at %s, which cannot run it", a, at)
			}
		}
	})
}

// Over many single accounts, each node is the first choice about equally often.
func TestNoNodeIsFavoured(t *testing.T) {
	nodes, first := names("node-", 4), map[string]int{}
	for _, a := range names("account-", 2000) {
		first[Of(fleet(nodes, []string{a}, nil), []string{a}, nil)[a]]++
	}
	for _, n := range nodes {
		if first[n] < 400 || first[n] > 600 {
			t.Errorf("%s is the first of %d accounts in 2000: %v", n, first[n], first)
		}
	}
}
