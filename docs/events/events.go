// Package events embeds the schemas and the AsyncAPI document of this directory in the program.
package events

import "embed"

// Files are a schema of each kind of command and type of event, such as order.create.json,
// and asyncapi.json, which refers to them.
//
//go:embed asyncapi.json *.*.json
var Files embed.FS
