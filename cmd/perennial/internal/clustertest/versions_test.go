//go:build check

// Rolling upgrades and downgrades. With another version of the program, each start of one of
// several runners draws one of the two versions. The data directory stays the same. A version with
// fewer migrations refuses the file of a version with more. With -cluster.forward a runner that has
// run this version therefore keeps it.

package clustertest

import (
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"testing"
)

var other = flag.String("cluster.other", "", "path of the program in another version: each start of one of three runners draws this version or that")

var forward = flag.Bool("cluster.forward", false, "upgrades only: a runner that has had this version does not go back to the other, whose schema is older")

// versions draws the program version for each start of a runner.
type versions struct {
	random *rand.Rand
	other  string       // path of the other version; "" for none
	first  int          // which of the first runners start with the other version: 0 or 1
	had    map[int]bool // runners that have run this version
}

// newVersions draws from the seed. A single runner always has this version.
func newVersions(t *testing.T, runners int) *versions {
	v := &versions{random: seeded(t, "versions"), had: map[int]bool{}}
	if v.first = v.random.IntN(2); runners > 1 {
		v.other = *other
	}
	return v
}

// draw returns the path of the version with which runner n starts, "" for this version. The first
// starts of three runners include both versions.
func (v *versions) draw(n int, first bool) string {
	others := v.random.IntN(2) == 0
	if first {
		others = n%2 == v.first
	}
	if others && (!*forward || !v.had[n]) {
		return v.other
	}
	v.had[n] = true
	return ""
}

// seeded returns a separate source of random numbers for one part of a test.
func seeded(t *testing.T, part string) *rand.Rand {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(t.Name() + part))
	return rand.New(rand.NewPCG(*seed, hash.Sum64()))
}

// versionsText describes each runner's version, the leader's first: "; versions: this holds, the
// other follows". It is empty if there is only one version.
func (r *rig) versionsText(holder *runner) string {
	if r.versions.other == "" {
		return ""
	}
	word := map[bool]string{true: "this", false: "the other"}
	all := []string{word[holder.other == ""] + " holds"}
	for _, one := range r.runners {
		if one != holder {
			all = append(all, word[one.other == ""]+" follows")
		}
	}
	return fmt.Sprintf("; versions: %s", strings.Join(all, ", "))
}
