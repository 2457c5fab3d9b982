// Command perennial keeps a fleet of rented proxy IPs alive: it carries out
// commands from NATS against the provider's customer API, once in effect.
package main

import (
	"context"
	"os"

	"perennial/cmd/perennial/internal/cli"
)

func main() {
	os.Exit(cli.Program{Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}.Main(context.Background()))
}
