// Package config reads perennial.yaml, the secrets that it names and the variables
// of the environment (docs/cli.md, docs/install.md). It refuses what it does not know, and
// says the line, the key and what to write. A key is declared once, by the tags of its field.
package config
