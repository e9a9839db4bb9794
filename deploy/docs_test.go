package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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

// Every error code and every Event has a page, and the index names the page.
func TestFailurePages_CoverAllCodesAndEvents(t *testing.T) {
	index := read(t, "../docs/failures/README.md")["../docs/failures/README.md"]
	pages := []string{"cni-11", "cni-50"}
	code := regexp.MustCompile(`\bCode\w+ uint = (\d+)`)
	event := regexp.MustCompile(`\.Warn\([^"\n]+, "(\w+)", |reasonOutside += "(\w+)"|r\.Warn\(owner, "(\w+)"`)
	for _, pattern := range []string{"../pkg/*/*.go", "../cmd/*/*.go"} {
		for path, source := range read(t, pattern) {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			for _, m := range code.FindAllStringSubmatch(source, -1) {
				pages = append(pages, "cni-"+m[1])
			}
			for _, m := range event.FindAllStringSubmatch(source, -1) {
				pages = append(pages, m[1]+m[2]+m[3])
			}
		}
	}
	if len(pages) < 16 {
		t.Errorf("only %d codes and Events found: %s", len(pages), pages)
	}
	for _, page := range pages {
		if _, err := os.Stat("../docs/failures/" + page + ".md"); err != nil {
			t.Error(err)
		}
		if !strings.Contains(index, "("+page+".md)") {
			t.Errorf("docs/failures/README.md does not name %s", page)
		}
	}
}

// Links of the documentation lead to files and headings that exist.
func TestDocs_LinksLeadToFilesAndHeadings(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^):#]*)(?:#([^)]*))?\)`)
	pages := read(t, "../docs/*.md")
	for _, pattern := range []string{"../docs/*/*.md", "../*.md"} {
		for path, text := range read(t, pattern) {
			pages[path] = text
		}
	}
	for path, text := range pages {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
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
