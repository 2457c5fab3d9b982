// The length-prefixed encoding under hashes and keys.

package fact

import "encoding/binary"

// AppendField appends a text with its length before it, so that no two lists of
// fields have one encoding. Hashes and keys are made of it permanently.
func AppendField(buf []byte, s string) []byte {
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(s)))
	return append(buf, s...)
}
