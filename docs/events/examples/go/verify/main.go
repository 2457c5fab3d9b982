// Verify verifies the hash chain of an account's events:
//
//	go run ./docs/events/examples/go/verify [FILE]
//
// It prints the last event as SEQ:HASH. Compare it with a head that was kept elsewhere
// (`perennial ledger balance` shows one): a chain that was cut off at its end holds too.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"

	"perennial/docs/events/examples/go/events"
)

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	file := ""
	if len(os.Args) > 1 {
		file = os.Args[1]
	}
	head, err := verify(ctx, file)
	stop()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(head)
}

func verify(ctx context.Context, file string) (string, error) {
	seq, hash := int64(0), strings.Repeat("0", 64)
	begun := false
	err := events.Each(ctx, file, func(raw []byte, e events.Event) error {
		place := e.Data.Ledger
		if !begun && place.Seq > 1 { // older ones were archived
			seq, hash = place.Seq-1, place.PrevHash
		}
		begun = true
		if place.Seq != seq+1 || place.PrevHash != hash {
			return fmt.Errorf("event %d does not follow the one before it", place.Seq)
		}
		if rowHash(raw, e) != place.Hash {
			return fmt.Errorf("event %d was changed", place.Seq)
		}
		seq, hash = place.Seq, place.Hash
		return nil
	})
	return fmt.Sprintf("%d:%s", seq, hash), err
}

func rowHash(raw []byte, e events.Event) string {
	var row bytes.Buffer
	text := func(b []byte) {
		_ = binary.Write(&row, binary.BigEndian, uint32(len(b)))
		row.Write(b)
	}
	number := func(n int64) { _ = binary.Write(&row, binary.BigEndian, n) }
	text([]byte(e.Data.Ledger.PrevHash))
	number(e.Data.Ledger.Seq)
	text([]byte(strings.TrimSuffix(strings.TrimPrefix(e.Type, "perennial."), ".v1")))
	number(e.Time.UnixMicro())
	text([]byte(e.Subject))
	text(data(raw))
	sum := sha256.Sum256(row.Bytes())
	return hex.EncodeToString(sum[:])
}

// data are the data as they were published, byte for byte, without their last member.
func data(raw []byte) []byte {
	_, behind, _ := bytes.Cut(raw, []byte(`,"data":`))
	to := bytes.LastIndex(behind, []byte(`"ledger":{"seq":`))
	if to < 0 {
		return nil
	}
	return append(bytes.TrimSuffix(bytes.Clone(behind[:to]), []byte(",")), '}')
}
