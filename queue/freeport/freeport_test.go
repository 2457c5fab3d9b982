package freeport

import (
	"fmt"
	"net"
	"testing"
)

func TestAPortIsFreeAndNamedOnce(t *testing.T) {
	had := map[int]bool{}
	for range 50 {
		port, err := Loopback()
		if err != nil {
			t.Fatal(err)
		}
		if had[port] || port >= 32768 {
			t.Errorf("port %d", port)
		}
		had[port] = true
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Error(err)
			continue
		}
		t.Cleanup(func() { _ = l.Close() })
	}
}

func TestATakenPortIsPassedOver(t *testing.T) {
	taken, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+int((next.Load()+1)%count)))
	if err == nil { // otherwise another process has it, which is as good
		defer func() { _ = taken.Close() }()
	}
	before := next.Load()
	port, err := Loopback()
	if err != nil || port == first+int((before+1)%count) {
		t.Error(port, err)
	}
}
