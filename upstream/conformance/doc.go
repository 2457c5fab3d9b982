// Package conformance observes an implementation of the customer API on the wire
// and says, statement by statement of the API document, whether it behaves so.
//
// The package shares no code with the client or the sandbox: it builds, signs
// and reads by itself, from the document alone, so that a misreading in one of
// them cannot hide in the other. A test checks this.
//
// Every [Check] has a stable id, the section of the document that it is from
// and a sentence. Where the document says "not shown" a check records what was
// seen and never fails. A run says what it may spend before it spends, buys what
// it renews, and touches nothing that it did not buy.
package conformance
