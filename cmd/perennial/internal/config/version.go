// The version of the program.

package config

// Version is set by the release build (-ldflags "-X perennial/cmd/perennial/internal/config.Version=…").
var Version = "0.1.0"
