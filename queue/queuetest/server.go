package queuetest

import (
	"flag"
	"fmt"
	"io"

	"github.com/nats-io/nats-server/v2/server"
)

// ServeNATS runs nats-server with these command-line arguments until a signal ends it, and
// returns the exit code. A test binary that calls it from TestMain can start and kill real
// servers without building another program.
func ServeNATS(args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("nats-server", flag.ContinueOnError)
	flags.SetOutput(stderr)
	options, err := server.ConfigureOptions(flags, args, nil, flags.Usage, server.PrintTLSHelpAndDie)
	if err == nil && options == nil {
		return 0 // help was printed
	}
	var s *server.Server
	if err == nil {
		s, err = server.NewServer(options)
	}
	if err == nil {
		s.ConfigureLogger()
		err = server.Run(s)
	}
	if err != nil {
		fmt.Fprintln(stderr, "nats-server:", err)
		return 1
	}
	s.WaitForShutdown()
	return 0
}
