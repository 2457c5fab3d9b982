package nodes

import (
	"testing"

	"perennial/queue/natstest"
)

func TestMain(m *testing.M) { natstest.Main(m) }
