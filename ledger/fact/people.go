// This file has facts about operators' actions that change neither money nor state: showing
// a proxy's credentials, and handling a dead letter.

package fact

// ProxyRevealed records that an operator requested the proxy's credentials in the web UI.
// The credentials are read from the provider only after this fact is stored. No fact
// contains them.
type ProxyRevealed struct {
	ProxyID string `json:"proxy_id" doc:"The provider's id of the proxy."`
	By      string `json:"by" doc:"The name of the person, as given in the request."`
	Reason  string `json:"reason" doc:"The reason, for people; the text may change."`
	User    string `json:"user,omitempty" doc:"The NATS user that sent the request, if the server authenticated the user."` // see UserOf
}

// Subject returns the proxy's id.
func (f ProxyRevealed) Subject() string { return f.ProxyID }

// FactType implements Fact.
func (ProxyRevealed) FactType() string { return "proxy.revealed" }

// DeadRequeued records that an operator requeued a dead letter, a command that could not be
// read. It is appended before the command is published and the dead letter is removed. If
// the dead letter is still listed, the command may not have been published.
type DeadRequeued struct {
	accountFact
	LetterSeq uint64 `json:"letter_seq" doc:"The sequence of the message in the stream of dead letters."`
	By        string `json:"by" doc:"The name of the person, as given in the request."`
	Reason    string `json:"reason" doc:"The reason, for people; the text may change."`
	User      string `json:"user,omitempty" doc:"The NATS user that sent the request, if the server authenticated the user."` // see UserOf
	// ContentHash is the SHA-256, in hex, of the corrected command that was published instead;
	// "" if the message was published unchanged.
	ContentHash string `json:"content_hash,omitempty" doc:"The SHA-256 of the corrected command that was published instead; omitted if the message was published unchanged."`
}

// FactType implements Fact.
func (DeadRequeued) FactType() string { return "dead.requeued" }

// DeadDropped records that an operator permanently removed a dead letter, a command that
// could not be read. It is appended before the removal. If the dead letter is still listed,
// the removal did not succeed.
type DeadDropped struct {
	accountFact
	LetterSeq uint64 `json:"letter_seq" doc:"The sequence of the message in the stream of dead letters."`
	By        string `json:"by" doc:"The name of the person, as given in the request."`
	Reason    string `json:"reason" doc:"The reason, for people; the text may change."`
	User      string `json:"user,omitempty" doc:"The NATS user that sent the request, if the server authenticated the user."` // see UserOf
}

// FactType implements Fact.
func (DeadDropped) FactType() string { return "dead.dropped" }
