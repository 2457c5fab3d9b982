// Package plans decides what one run of a schedule renews: the due proxies, their order,
// their expected cost, the skipped proxies with reasons, and the renewal commands. It also
// validates a schedule's configuration and computes its scheduled times.
//
// The same inputs and history give the same plan, with byte-identical commands. Every
// skipped proxy is counted with its reason. Proxies with a known price never exceed a money
// limit. Proxies with an unknown price exceed a budget by at most one renewal.
//
// The package writes nothing, publishes nothing and reads no clock. Inputs has the time;
// History has past prices and results. The package must not depend on the stream or the
// sweeper.
package plans
