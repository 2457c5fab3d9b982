// The caller of a request, and where its answer may go. A NATS server proves some of a
// request; any client may have written the rest.

package caller

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/nats-io/nats.go"

	"perennial/queue"
)

// requestInfo is the header in which a NATS server names the sender of a request that
// crosses between NATS accounts.
const requestInfo = "Nats-Request-Info"

// Of returns the user whose request crossed into the runner's NATS account, as proved by
// the server. It is "" if the request did not cross, because any client may then have
// written the header. A reply subject that begins with _R_ belongs to the server: no client
// may name one.
//
// The user is read from the name of its NATS account, because the server takes the field
// `user` from the client's CONNECT. JWT accounts are named by their keys; there it is the
// name in the user's JWT, which the account has signed. A second header was written by the
// client, in a form that the server did not remove.
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

// MayAnswer reports whether an answer may be sent to the reply subject of a request: not
// into the subjects of NATS itself or of Perennial. A server that separates users admits no
// such reply; this check is for other servers.
func MayAnswer(reply string) bool {
	return reply != "" && !strings.HasPrefix(reply, "$") && !strings.HasPrefix(reply, "perennial.")
}
