// Command perennial keeps a fleet of rented proxy IPs alive: it carries out
// commands from NATS against the provider's customer API, once in effect.
//
// This room is thin: one file for each command, the configuration, and the
// wiring of the other rooms (host.go). What commands mean is in jobs.
package main

import (
	"context"
	"os"
)

// reached hears of the moments named in docs/reliability.md: crash tests kill the
// process there, and nothing else sets it.
var reached func(point string)

func main() {
	os.Exit(Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
