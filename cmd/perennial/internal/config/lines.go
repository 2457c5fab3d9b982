// Where in the file each key stands.

package config

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// secondDocument is the line of what a file holds after its first YAML document, 0 where it
// holds nothing. The loader reads the first document alone.
func secondDocument(text []byte) int {
	var first, second yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(text))
	if d.Decode(&first) != nil || errors.Is(d.Decode(&second), io.EOF) {
		return 0
	}
	return max(second.Line, 1)
}

// linesOf gives the line, from 1, of every key of a configuration by its path, such as
// accounts.main.base_url or schedules[0].cron.
func linesOf(text []byte) map[string]int {
	lines := map[string]int{}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err == nil && len(doc.Content) > 0 {
		addLines(lines, doc.Content[0], "")
	}
	return lines
}

func addLines(lines map[string]int, n *yaml.Node, path string) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == "<<" { // what is merged in has keys of this place; its own ones come later
				addLines(lines, n.Content[i+1], path)
			}
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			at := under(path, n.Content[i].Value)
			lines[at] = n.Content[i].Line
			addLines(lines, n.Content[i+1], at)
		}
	case yaml.SequenceNode:
		for i, one := range n.Content {
			at := path + "[" + strconv.Itoa(i) + "]"
			lines[at] = one.Line
			addLines(lines, one, at)
		}
	case yaml.ScalarNode, yaml.DocumentNode, yaml.AliasNode:
	}
}

// atLine is "line N: " for a failure whose words begin with the path of a key that is in
// the file, or of what holds it; "" for any other.
func atLine(lines map[string]int, words string) string {
	path, _, _ := strings.Cut(words, " ")
	path = strings.TrimSuffix(path, ":")
	for path != "" {
		if line, ok := lines[path]; ok {
			return "line " + strconv.Itoa(line) + ": "
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return ""
}
