package datadir

import (
	"testing"

	"perennial/ledger/testrun"
)

func TestMain(m *testing.M) { testrun.Main(m) }
