// The signing secrets and the signature headers (Standard Webhooks, "Signature scheme").

package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers of a delivery.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp"
	HeaderSignature = "Webhook-Signature"
)

const (
	secretPrefix = "whsec_"
	// secretLeast and secretMost are the shortest and longest key that Standard Webhooks
	// allows, in bytes.
	secretLeast, secretMost = 24, 64
	// secretsMost limits the secrets that sign at one time: the new one and the old one.
	secretsMost = 2
)

// Secrets are the keys that sign each event. There are two keys while receivers change to a
// new secret. Formatting a Secrets never shows a key, also as a field of another type.
type Secrets struct {
	count int
	keys  func() [][]byte // a function, because fmt prints the fields of unexported fields
}

// ParseSecrets parses one or two secrets, separated by white space. Its errors never quote the
// text.
func ParseSecrets(text []byte) (Secrets, error) {
	words := strings.Fields(string(text))
	if len(words) == 0 {
		return Secrets{}, errors.New("is empty")
	}
	if len(words) > secretsMost {
		return Secrets{}, fmt.Errorf("has %d words: it holds one secret, or two while one takes the place of the other", len(words))
	}
	var keys [][]byte
	for _, word := range words {
		encoded, is := strings.CutPrefix(word, secretPrefix)
		key, err := base64.StdEncoding.DecodeString(encoded)
		if !is || err != nil || len(key) < secretLeast || len(key) > secretMost {
			return Secrets{}, fmt.Errorf("holds no secret of Standard Webhooks: it is %s and %d to %d bytes in base64, as `echo whsec_$(openssl rand -base64 32)` prints",
				secretPrefix, secretLeast, secretMost)
		}
		keys = append(keys, key)
	}
	return Secrets{len(keys), func() [][]byte { return keys }}, nil
}

// String returns the number of secrets, never their values.
func (s Secrets) String() string { return fmt.Sprintf("(%d secrets, not shown)", s.count) }

// GoString returns the result of String.
func (s Secrets) GoString() string { return s.String() }

// sign sets the headers of one attempt. All attempts for an event share its id. The time and
// the signatures differ for each attempt.
func (s Secrets) sign(header http.Header, id string, at time.Time, body []byte) {
	stamp := strconv.FormatInt(at.Unix(), 10)
	var keys [][]byte
	if s.keys != nil {
		keys = s.keys()
	}
	signatures := make([]string, len(keys))
	for i, key := range keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + stamp + "."))
		mac.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	header.Set(HeaderID, id)
	header.Set(HeaderTimestamp, stamp)
	header.Set(HeaderSignature, strings.Join(signatures, " "))
}
