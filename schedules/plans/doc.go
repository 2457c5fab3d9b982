// Package plans decides what one run of a schedule renews: the due proxies, their order,
// their expected cost, the skipped ones with their reasons, and the renewal commands. It
// holds the rules of a schedule's configuration and its calendar of scheduled times.
//
// The same inputs and history give the same plan, with byte-identical commands. Every
// skipped proxy is counted, with its reason. Proxies with a known price never exceed a
// money limit; unknown prices exceed it by at most one renewal.
//
// The package writes nothing, publishes nothing and reads no clock. Inputs has the time,
// and History tells past prices and endings. It knows neither the stream nor the
// sweeper.
package plans
