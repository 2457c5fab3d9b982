package upstream

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// kept returns what remains of a refusal's message and data.errors.
func kept(t interface{ Fatal(args ...any) }, message string, errs any) string {
	body, err := json.Marshal(map[string]any{
		"success": false, "code": "validation_error", "message": message, "trace_id": "tr_1", "data": map[string]any{"errors": errs},
	})
	if err != nil {
		t.Fatal(err)
	}
	e, err := DecodeEnvelope(body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s | %s", e.Message, fieldMessages(e.fieldErrors()))
}

// Whatever word a sentence uses for a credential, and whatever follows that word, text that may
// be the credential is withheld.
func TestTrap41NoSentenceKeepsACredential(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		of := func(label string, from ...string) string { return rapid.SampledFrom(from).Draw(t, label) }
		canary := rapid.StringMatching(`[a-z]{1,3}[A-Z0-9]{1,4}kretq[A-Za-z0-9!$%_-]{0,8}`).Draw(t, "canary")
		word := of("word", "password", "passwd", "pwd", "pass", "Passphrase", "username", "user name", "user_name", "User", "login", "secret", "token",
			"API key", "credential", "credentials", "connection string", "proxy_password", "auth", "Bearer", "用户名", "密码")
		if of("case", "as it is", "upper") == "upper" {
			word = strings.ToUpper(word)
		}
		behind := of("behind", " ", " is ", " is wrong. Yours was ", "  ", ", ", " '", ` "`, " (", " -> ", "\t", " of proxy px_1 is ", "\u200b", " | ", "/", "-", "_", "")
		if behind == "" {
			word = "Password" // without its ending, a short word is not a credential word
		}
		lower := of("lower", canary, "hunterkretq") // a dictionary may contain it
		message := of("front", "", "the ", "Proxy px_1: ", "bad ", "Login alice ") + word + behind + lower + of("tail", "", " is too weak", ".", "' was refused")
		if of("order", "behind", "in front") == "in front" {
			message = of("quote", "", "'", `"`, "(") + canary + of("then", " is not a valid ", "' is a bad ", " was refused as ") + word
		}
		field := of("field", "items.0", "password", "proxy.username", "x")
		value := of("value", "", "bad ", "is ") + canary + of("after", "", " is refused")
		text := kept(t, message, []any{map[string]any{field: []any{value, message}}, message, value})
		if strings.Contains(strings.ToLower(text), "kretq") {
			t.Fatalf("%q and %q are kept as %s", message, value, text)
		}
	})
}

func TestTrap41NoShapeOfAConnectionIsKept(t *testing.T) {
	for _, text := range []string{
		"192.0.2.1:1080:alice:kretq is in use", "socks5://alice:kretq@192.0.2.1:1080 is down", "alice:kretq@192.0.2.1:1080 is down",
	} {
		if got := kept(t, text, []any{text}); strings.Contains(got, "kretq") {
			t.Errorf("%q is kept as %s", text, got)
		}
	}
}

// A refusal must still say what is wrong.
func TestPlainRefusalsAreKept(t *testing.T) {
	for _, text := range []string{
		"password is required", "The password is too weak.", "username and password must match", "The page token is expired, altered or of another list.",
		"The login is disabled. Please contact support.", "Passwords cannot be changed", "a password must have at least 8 characters",
		"The key lacks the scope orders:write.", "The offer off_us_dallas is unknown or no longer available.", "quantity must be at most 200",
		"proxy px_1 is not yours (see px_2)", "Der Wert ist zu groß", "数量不能超过上限",
	} {
		if got, want := kept(t, text, nil), text+" | "; got != want {
			t.Errorf("%q is kept as %q", text, got)
		}
	}
	got := kept(t, "no", map[string]any{"password": []any{"is required", "hunter"}, "items.0.quantity": "must be at most 200", "socks5://u:p@h": "bad SEKRET1", "n": 5})
	want := "no | items.0.quantity: must be at most 200; n: 5; password: is required; password: (the rest is withheld: it may be credentials); (withheld): bad (withheld)"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
