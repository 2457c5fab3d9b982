// Command perennial keeps rented proxy IPs from expiring. It carries out commands from NATS
// through the provider's customer API, so that each command is charged exactly once.
package main

import (
	"context"
	"os"

	"perennial/cmd/perennial/internal/cli"
)

func main() {
	os.Exit(cli.Program{Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}.Main(context.Background()))
}
