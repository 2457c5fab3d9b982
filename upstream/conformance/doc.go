// Package conformance checks a server of the customer API. It sends requests, and compares
// the replies with each statement of the API document.
//
// The package shares no code with the client or the sandbox. Only the API document
// determines how it builds, signs and reads messages. If the client or the sandbox misreads
// the document, the checks do not repeat the mistake. A test verifies this independence.
//
// Every [Check] has a stable id, a section of the document and a sentence. If the document
// says "not shown", the check records the server's behaviour and never fails. Before a run
// spends money, it announces how much it may spend. It renews only proxies that it has
// bought. It reverses every change that it makes through the control interface.
package conformance
