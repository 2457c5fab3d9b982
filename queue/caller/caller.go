package caller

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/nats-io/nats.go"

	"perennial/queue"
)

// requestInfo is the header in which a NATS server identifies the sender of a request that
// crosses between NATS accounts.
const requestInfo = "Nats-Request-Info"

// Of returns the user whose request crossed into the runner's NATS account, as the server
// identified it. For any other request it returns "", because a client could have set the
// header. The server creates reply subjects that begin with _R_; clients cannot use them.
//
// Each user has a NATS account, and Of takes the user from the account's name. It does not use
// the field `user` in CONNECT, because the client itself sets that field. The name of a JWT
// account is a key. In that case, Of returns the name in the user's JWT, which the account has
// signed. If the header occurs twice, a client set one of them, and Of returns "".
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

// MayAnswer reports whether a reply may be sent to the reply subject of a request. Subjects
// of NATS itself and of Perennial are not allowed. A server that separates users never
// delivers such a request; this check is for other servers.
func MayAnswer(reply string) bool {
	return reply != "" && !strings.HasPrefix(reply, "$") && !strings.HasPrefix(reply, "perennial.")
}
