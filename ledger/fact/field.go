// This file has the length-prefixed encoding that is used in hashes and keys.

package fact

import "encoding/binary"

// AppendField appends a text, prefixed with its length, so that different lists of fields
// have different encodings. The encoding must never change, because hashes and keys depend
// on it.
func AppendField(buf []byte, s string) []byte {
	buf = binary.BigEndian.AppendUint32(buf, uint32(len(s)))
	return append(buf, s...)
}
