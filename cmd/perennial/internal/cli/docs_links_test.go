package cli

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each link leads to an existing file, and to a heading in it. Anchors follow GitHub's rules.
func TestEveryLinkOfTheDocumentsLeadsSomewhere(t *testing.T) {
	pages, anchors, followed := documents(t), map[string]map[string]bool{}, 0
	for _, page := range pages {
		anchors[page] = headings(t, page)
	}
	for _, page := range pages {
		_, prose := blocks(t, page)
		prose = regexp.MustCompile("`[^`\n]*`").ReplaceAllString(prose, "")
		for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(prose, -1) {
			link, err := url.Parse(m[1])
			if err != nil || link.Scheme != "" {
				continue
			}
			followed++
			to := page
			if link.Path != "" {
				to = filepath.Join(filepath.Dir(page), link.Path)
			}
			if _, err := os.Stat(filepath.Join(repository, to)); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			}
			if link.Fragment != "" && !anchors[to][link.Fragment] {
				t.Errorf("%s links to %s: no such heading", page, m[1])
			}
		}
	}
	if followed < 150 {
		t.Errorf("only %d links were followed", followed)
	}
}

// headings returns the anchors of a document.
func headings(t *testing.T, page string) map[string]bool {
	t.Helper()
	_, prose := blocks(t, page)
	all := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^#+ +(.+)$`).FindAllStringSubmatch(prose, -1) {
		words := regexp.MustCompile(`[^\p{L}\p{M}\p{N}\p{Pc}\- ]`).ReplaceAllString(strings.ToLower(m[1]), "")
		all[strings.ReplaceAll(words, " ", "-")] = true
	}
	return all
}

// Each page of docs is in a table of docs/README.md, by which readers and the site find it.
// Decisions are listed by their names instead.
func TestNoDocumentIsMissingFromTheList(t *testing.T) {
	list := text(t, repository+"/docs/README.md")
	for _, page := range documents(t) {
		name, isDocument := strings.CutPrefix(page, "docs/")
		if isDocument && name != "README.md" && !strings.HasPrefix(name, "decisions/") && !strings.Contains(list, "]("+name+")") {
			t.Errorf("docs/README.md does not list %s", name)
		}
	}
}
