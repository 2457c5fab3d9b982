//go:build check

// Rolling upgrades and downgrades: with another version of the program, each start of one
// of several runners draws one of the two. A data directory is kept through both. A version
// with fewer migrations refuses the file of one with more: with -cluster.forward a runner
// that has begun with this version keeps it.

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

// versions draws which version of the program a runner starts with.
type versions struct {
	random *rand.Rand
	other  string       // path of the other version; "" for none
	first  int          // which of the first runners begin with the other version: 0 or 1
	had    map[int]bool // runners that have had this version
}

// newVersions draws by the seed. One runner alone always has this version.
func newVersions(t *testing.T, runners int) *versions {
	v := &versions{random: seeded(t, "versions"), had: map[int]bool{}}
	if v.first = v.random.IntN(2); runners > 1 {
		v.other = *other
	}
	return v
}

// draw is the path of the version that runner n starts with, "" for this one. Among the
// first starts of three runners are both versions.
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

// seeded is a source of random numbers of its own for a part of a test.
func seeded(t *testing.T, part string) *rand.Rand {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(t.Name() + part))
	return rand.New(rand.NewPCG(*seed, hash.Sum64()))
}

// versionsText says which version each runner has, the holder's first: "; versions: this holds, the
// other follows". It is empty if there is one version.
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
