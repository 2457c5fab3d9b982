// The report, and its form as JUnit XML.

package conformance

import (
	"encoding/xml"
	"fmt"
	"io"
)

// Report is what a run saw.
type Report struct {
	BaseURL     string   `json:"base_url"`
	AppID       string   `json:"app_id"`
	Environment string   `json:"environment"`
	MaxCents    int64    `json:"max_cents"`
	SpentCents  int64    `json:"spent_cents"` // the wallet before less the wallet after; -1: not known
	Requests    int64    `json:"requests"`
	Results     []Result `json:"results"`
}

// Result is a check with its verdict.
type Result struct {
	ID       string  `json:"id"`
	Section  string  `json:"section"`
	Sentence string  `json:"sentence"`
	Costs    bool    `json:"costs"`
	Verdict  Verdict `json:"verdict"`
	Seen     string  `json:"seen"`
}

// Count is how many results have a verdict.
func (r *Report) Count(v Verdict) (n int) {
	for i := range r.Results {
		if r.Results[i].Verdict == v {
			n++
		}
	}
	return n
}

type junitCounts struct {
	Tests    int `xml:"tests,attr"`
	Failures int `xml:"failures,attr"`
	Skipped  int `xml:"skipped,attr"`
}

type junitSuites struct {
	XMLName xml.Name `xml:"testsuites"`
	junitCounts
	Suites []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name string `xml:"name,attr"`
	junitCounts
	Cases []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string     `xml:"name,attr"`
	Class   string     `xml:"classname,attr"`
	Failure *junitNote `xml:"failure,omitempty"`
	Skipped *junitNote `xml:"skipped,omitempty"`
	Output  *junitNote `xml:"system-out,omitempty"`
}

type junitNote struct {
	Message string `xml:"message,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// WriteJUnit writes the report as JUnit XML: one suite a section; what differs is
// a failure, what was not run is skipped, what is not shown passes with what was
// seen as its output.
func (r *Report) WriteJUnit(w io.Writer) error {
	all := junitSuites{junitCounts: r.junitCounts()}
	for _, section := range Sections() {
		var part Report
		for _, result := range r.Results {
			if result.Section == section {
				part.Results = append(part.Results, result)
			}
		}
		if len(part.Results) > 0 {
			all.Suites = append(all.Suites, junitSuite{section, part.junitCounts(), part.junitCases()})
		}
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

func (r *Report) junitCounts() junitCounts {
	return junitCounts{len(r.Results), r.Count(Differs), r.Count(NotRun)}
}

func (r *Report) junitCases() (out []junitCase) {
	for _, result := range r.Results {
		c := junitCase{Name: result.ID, Class: result.Section}
		switch result.Verdict {
		case Differs:
			c.Failure = &junitNote{result.Seen, result.Sentence}
		case NotRun:
			c.Skipped = &junitNote{Message: result.Seen}
		case NotShown:
			c.Output = &junitNote{Text: "not shown: " + result.Seen}
		case OK:
		}
		out = append(out, c)
	}
	return out
}
