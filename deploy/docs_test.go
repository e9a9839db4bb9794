package deploy

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func read(t *testing.T, pattern string) (all map[string]string) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: %v, %v", pattern, paths, err)
	}
	all = map[string]string{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all[path] = string(data)
	}
	return all
}

// eventPatterns find the reasons of Events in Go: in a call, as a constant, and as a function's result beside the text.
var eventPatterns = []*regexp.Regexp{
	regexp.MustCompile(`\.(?:Warn|Note)\([^\n]+?, "([A-Z]\w+)", `),
	regexp.MustCompile(`(?:\.emit|permit\.Leave)\([^\n]+?, "([A-Z]\w+)", `),
	regexp.MustCompile(`\breason(?:Outside|Inside|OffloadSet|OffloadOff) += "([A-Z]\w+)"`),
	regexp.MustCompile(`return "([A-Z][a-z]+[A-Z]\w+)", (?:fmt\.|")`),
}

// reported gives the codes of CNI errors, as names of pages, and the reasons of Events that the code has.
func reported(t *testing.T) (codes, events []string) {
	t.Helper()
	codes = []string{"cni-11", "cni-50"} // of the CNI specification
	code := regexp.MustCompile(`\bCode\w+ uint = (\d+)`)
	for _, pattern := range []string{"../pkg/*/*.go", "../pkg/*/*/*.go", "../cmd/*/*.go"} {
		for path, source := range read(t, pattern) {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			for _, m := range code.FindAllStringSubmatch(source, -1) {
				codes = append(codes, "cni-"+m[1])
			}
			for _, event := range eventPatterns {
				for _, m := range event.FindAllStringSubmatch(source, -1) {
					events = append(events, m[1])
				}
			}
		}
	}
	return codes, events
}

// recoveries are Normal Events; the page of the failure that they end names them.
var recoveries = []string{"NetworkRecovered", "TrafficOffloaded", "HardwareOffloadSet"}

// Every error code and every Event has a page, and the index names the page.
func TestFailurePages_CoverAllCodesAndEvents(t *testing.T) {
	all := read(t, "../docs/failures/*.md")
	index := all["../docs/failures/README.md"]
	codes, events := reported(t)
	if len(codes) < 10 || len(events) < 12 {
		t.Errorf("only codes %s and Events %s found", codes, events)
	}
	for _, page := range slices.Concat(codes, events) {
		if slices.Contains(recoveries, page) {
			if !strings.Contains(index, "`"+page+"`") {
				t.Errorf("docs/failures/README.md does not name %s", page)
			}
			continue
		}
		if all["../docs/failures/"+page+".md"] == "" {
			t.Errorf("no page docs/failures/%s.md", page)
		}
		if !strings.Contains(index, "("+page+".md)") {
			t.Errorf("docs/failures/README.md does not name %s", page)
		}
	}
}

// Every page is about a code, an Event or an alert that there is, or about a symptom that the index names.
func TestFailurePages_AreAboutWhatThereIs(t *testing.T) {
	all := read(t, "../docs/failures/*.md")
	index := all["../docs/failures/README.md"]
	codes, events := reported(t)
	var alerts strings.Builder
	if err := fs.WalkDir(files, "chart", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := files.ReadFile(path)
		alerts.Write(text)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	about := func(page string) bool {
		switch {
		case strings.HasPrefix(page, "cni-"):
			return slices.Contains(codes, page)
		case page[0] >= 'A' && page[0] <= 'Z':
			return slices.Contains(events, page) || strings.Contains(alerts.String(), page)
		}
		return strings.Contains(index, "("+page+".md)")
	}
	for path := range all {
		if page := strings.TrimSuffix(filepath.Base(path), ".md"); page != "README" && !about(page) {
			t.Errorf("docs/failures/%s.md is about nothing that the code reports, or is not in the index", page)
		}
	}
	for _, page := range []string{"cni-999", "NothingOfTheKind", "no-such-symptom"} {
		if about(page) {
			t.Errorf("a page %s would pass", page)
		}
	}
}

// Links of the documentation lead to files and headings that exist.
func TestDocs_LinksLeadToFilesAndHeadings(t *testing.T) {
	link, code := regexp.MustCompile(`\]\(([^):#]*)(?:#([^)]*))?\)`), regexp.MustCompile("`[^`\n]*`")
	pages := read(t, "../docs/*.md")
	for _, pattern := range []string{"../docs/*/*.md", "../*.md"} {
		for path, text := range read(t, pattern) {
			pages[path] = text
		}
	}
	for path, text := range pages {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(text, ""), -1) {
			target := path
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(path), m[1])
			}
			if err := linked(target, m[2]); err != nil {
				t.Errorf("%s: %s: %v", path, m[0], err)
			}
		}
	}
}

var notInAnchors = regexp.MustCompile("[^a-z0-9 _-]")

func linked(path, heading string) error {
	info, err := os.Stat(path)
	if err != nil || info.IsDir() || heading == "" {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(data)) {
		if !strings.HasPrefix(line, "#") {
			continue
		}
		anchor := notInAnchors.ReplaceAllString(strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#"))), "")
		if strings.ReplaceAll(anchor, " ", "-") == heading {
			return nil
		}
	}
	return fmt.Errorf("no heading #%s", heading)
}
