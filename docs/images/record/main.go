// Command record draws what it reads from its input as a terminal, as SVG:
//
//	make picture
//
// runs the demonstration and writes docs/images/demo.svg. TestTwoDemosShowTheSameMoneyThatAddsUp
// compares the picture's lines with those of the demonstration as it is now.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Sizes in pixels. Every font is drawn at the width of a column, so that columns stay columns
// where the first font of the list is not there.
const (
	column, row   = 8.4, 20
	margin, title = 20, 36
)

const command = "go run ./cmd/perennial demo"

// style is dark on light pages too: a picture cannot know which page it is on.
const style = `text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#c9d1d9;white-space:pre}` +
	`.head{fill:#79c0ff;font-weight:bold}.good{fill:#7ee787}.warn{fill:#f0b72f}.prompt{fill:#8b949e}`

// marked are the words of the demonstration that stand out, each group in its class.
var marked = regexp.MustCompile(`(?P<head>^(?:WALLET|STEP|BOOKS|EVENTS)\b)|(?P<prompt>^\$)` +
	`|(?P<good>they agree to the cent|\bdone once|renewed, though the reply was lost|renewal\.completed)` +
	`|(?P<warn>operation\.waiting|no usable reply.*$|read: connection reset by peer|reply was lost|rejected and refunded)`)

func main() {
	if err := record(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func record(in io.Reader, out io.Writer) error {
	lines := []string{"$ " + command}
	read := bufio.NewScanner(in)
	for read.Scan() {
		lines = append(lines, read.Text())
	}
	if err := read.Err(); err != nil {
		return err
	}
	if len(lines) == 1 {
		return errors.New("nothing was read: the demonstration has failed")
	}
	return draw(out, lines)
}

// draw writes the lines, each as one text element.
func draw(w io.Writer, lines []string) error {
	columns := 0
	for _, line := range lines {
		columns = max(columns, utf8.RuneCountInString(line))
	}
	width, height := float64(columns)*column+2*margin, len(lines)*row+title+margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" width="%.0f" height="%d" role="img">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n<style>%s</style>\n", command, style)
	fmt.Fprintf(&b, `<rect x="0.5" y="0.5" width="%.0f" height="%d" rx="10" fill="#161b22" stroke="#484f58"/>`+"\n", width-1, height-1)
	for i, fill := range []string{"#ff5f57", "#febc2e", "#28c840"} {
		fmt.Fprintf(&b, `<circle cx="%d" cy="18" r="6" fill="%s"/>`+"\n", margin+i*20, fill)
	}
	for i, line := range lines {
		text := strings.TrimLeft(line, " ")
		if text == "" {
			continue
		}
		x := margin + float64(len(line)-len(text))*column
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" textLength="%.1f" lengthAdjust="spacingAndGlyphs" xml:space="preserve">%s</text>`+"\n",
			x, title+(i+1)*row-5, float64(utf8.RuneCountInString(text))*column, mark(text))
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// mark wraps what stands out.
func mark(text string) string {
	var b strings.Builder
	end := 0
	for _, m := range marked.FindAllStringSubmatchIndex(text, -1) {
		b.WriteString(html.EscapeString(text[end:m[0]]))
		for group, class := range marked.SubexpNames() {
			if class != "" && m[2*group] >= 0 {
				fmt.Fprintf(&b, `<tspan class="%s">%s</tspan>`, class, html.EscapeString(text[m[0]:m[1]]))
			}
		}
		end = m[1]
	}
	b.WriteString(html.EscapeString(text[end:]))
	return b.String()
}
