// The report as JUnit XML.

package conformance

import (
	"encoding/xml"
	"fmt"
	"io"
)

// junitSuites is the JUnit form that continuous integration reads.
type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Skipped  int          `xml:"skipped,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string      `xml:"name,attr"`
	Class   string      `xml:"classname,attr"`
	Failure *junitNote  `xml:"failure,omitempty"`
	Skipped *junitNote  `xml:"skipped,omitempty"`
	Output  *junitPlain `xml:"system-out,omitempty"`
}

type junitNote struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

type junitPlain struct {
	Text string `xml:",chardata"`
}

// WriteJUnit writes the report as JUnit XML: one suite a section; what differs is
// a failure, what was not run is skipped, what is not shown passes with what was
// seen as its output.
func (r *Report) WriteJUnit(w io.Writer) error {
	all := junitSuites{}
	for _, section := range Sections() {
		suite := junitSuite{Name: section}
		for _, result := range r.Results {
			if result.Section == section {
				suite.add(result)
			}
		}
		if suite.Tests == 0 {
			continue
		}
		all.Suites = append(all.Suites, suite)
		all.Tests, all.Failures, all.Skipped = all.Tests+suite.Tests, all.Failures+suite.Failures, all.Skipped+suite.Skipped
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(all); err != nil {
		return fmt.Errorf("JUnit: %w", err)
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func (s *junitSuite) add(r Result) {
	c := junitCase{Name: r.ID, Class: r.Section}
	switch r.Verdict {
	case Differs:
		c.Failure = &junitNote{Message: r.Seen, Text: r.Sentence}
		s.Failures++
	case NotRun:
		c.Skipped = &junitNote{Message: r.Seen}
		s.Skipped++
	case NotShown:
		c.Output = &junitPlain{Text: "not shown: " + r.Seen}
	case OK:
	}
	s.Tests++
	s.Cases = append(s.Cases, c)
}
