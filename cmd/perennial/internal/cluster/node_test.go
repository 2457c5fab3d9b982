package cluster

import "testing"

func TestOneUnreadableHeartbeatHidesNoOther(t *testing.T) {
	all, err := NodesSaid([][]byte{[]byte(`{"node":"b"}`), []byte(`{"node":7}`), []byte(`{"node":"a"}`)})
	if err == nil || len(all) != 2 || all[0].Node != "a" {
		t.Errorf("%+v %v", all, err)
	}
}
