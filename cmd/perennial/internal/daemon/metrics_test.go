package daemon

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"perennial/ledger/testrun"
)

func everyMetric() (all []metric) {
	for _, m := range measures {
		all = append(all, m.metric)
	}
	return append(append(all, newMeter(prometheus.NewRegistry(), "").declared...), builtAs)
}

func TestTheDocumentHasEveryMetric(t *testing.T) {
	t.Parallel()
	var rows strings.Builder
	for _, m := range everyMetric() {
		fmt.Fprintf(&rows, "| `%s{%s}` | %s | %s |\n", m.name, strings.Join(m.labels, ","), strings.ToLower(m.kind), m.help)
	}
	testrun.Table(t, "docs/monitor.md", "| metric | type | meaning |\n|---|---|---|\n", rows.String())
}
