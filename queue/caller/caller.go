// The caller of a request, and where its answer may go: what a NATS server proves of a
// request, and what any client may have written into it.

package caller

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/nats-io/nats.go"

	"perennial/queue"
)

// requestInfo is the header by which a NATS server says whose request crosses from
// one NATS account to another.
const requestInfo = "Nats-Request-Info"

// Of is the user whose request crossed into the runner's NATS account, as the
// server proves it; "" where it did not cross, and any client may have written the
// header. A reply subject that begins with _R_ is the server's: no client may name one.
//
// The user is read from the name of its NATS account, for the server takes the field
// `user` from whatever CONNECT says. Accounts of JWTs are named by their keys: there the
// name is that of the user's JWT, which the account has signed. A second header was
// written by the client, in a form that the server did not remove.
func Of(header nats.Header, reply string) string {
	values := header.Values(requestInfo)
	if !Crossed(reply) || len(values) != 1 {
		return ""
	}
	var info struct {
		Account string `json:"acc"`
		NameTag string `json:"name_tag"`
	}
	if err := json.Unmarshal([]byte(values[0]), &info); err != nil {
		return ""
	}
	return cmp.Or(info.NameTag, strings.TrimPrefix(info.Account, queue.UserAccount("")))
}

// Crossed reports whether a request came from another NATS account.
func Crossed(reply string) bool { return strings.HasPrefix(reply, "_R_.") }

// MayAnswer reports whether an answer may be sent where a request asks for it: not
// into the subjects of NATS itself or of Perennial. A server that keeps users apart
// lets no such reply through; this is for one that does not.
func MayAnswer(reply string) bool {
	return reply != "" && !strings.HasPrefix(reply, "$") && !strings.HasPrefix(reply, "perennial.")
}
