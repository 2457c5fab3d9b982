// Package conformance checks an implementation of the customer API on the wire, statement
// by statement of the API document.
//
// The package shares no code with the client or the sandbox. It builds, signs and reads
// messages from the document alone. A misreading in one of them then cannot hide in
// another. A test checks this independence.
//
// Every [Check] has a stable id, a section of the document and a sentence. If the document
// says "not shown", a check records what was seen and never fails. A run announces what it
// may spend before spending, buys what it renews, and touches nothing else.
package conformance
