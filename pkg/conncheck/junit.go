package conncheck

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
)

type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	Seconds string        `xml:"time,attr"`
	Failure *junitMessage `xml:"failure"`
	Skipped *junitMessage `xml:"skipped"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
}

// WriteJUnit writes a file of results as CI systems read them; no path: none.
func WriteJUnit(path string, results []Result) error {
	if path == "" {
		return nil
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(writeJUnit(file, results), file.Close())
}

func writeJUnit(w io.Writer, results []Result) error {
	suite := junitSuite{Name: "kubectl offload test", Tests: len(results)}
	for _, r := range results {
		c := junitCase{Name: r.ID, Class: r.Group, Seconds: fmt.Sprintf("%.3f", r.Seconds)}
		switch r.Verdict {
		case Fail:
			suite.Failures++
			c.Failure = &junitMessage{r.Text}
		case Skip:
			suite.Skipped++
			c.Skipped = &junitMessage{r.Text}
		case OK:
		}
		suite.Cases = append(suite.Cases, c)
	}
	text, err := xml.MarshalIndent(suite, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s%s\n", xml.Header, text)
	return err
}
