// The length-prefixed encoding used in hashes and keys.

package fact

import "encoding/binary"

// AppendField appends a text prefixed with its length, so that different lists of fields
// have different encodings. Hashes and keys depend on it permanently.
func AppendField(buf []byte, s string) []byte {
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(s)))
	return append(buf, s...)
}
