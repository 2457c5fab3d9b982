package config

import "runtime/debug"

// Version is set by the release build (-ldflags "-X
// perennial/cmd/perennial/internal/config.Version=…").
var Version = "0.1.0"

// Commit returns the revision of the build, with "+" if files had uncommitted changes. It
// returns "" if the revision is unknown.
func Commit() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	revision, changed := "", ""
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value
		case "vcs.modified":
			if s.Value == "true" {
				changed = "+"
			}
		}
	}
	if revision == "" {
		return ""
	}
	return revision + changed
}
