// Package config reads perennial.yaml, the secrets that it names and the environment
// variables (docs/cli.md, docs/install.md). It refuses unknown keys, and errors name the
// line, the key and the fix. The tags of a field declare its key once.
package config
