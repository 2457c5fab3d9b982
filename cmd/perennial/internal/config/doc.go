// Package config reads perennial.yaml, the secret files that it refers to, and environment
// variables (docs/cli.md, docs/install.md). It refuses unknown keys. Its errors contain the
// line, the key and the fix. Each key is declared once, in the tags of its field.
package config
