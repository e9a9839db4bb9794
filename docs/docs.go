// Package docs has the pages for users, for `kubectl offload help`.
package docs

import (
	"embed"
	"io/fs"
	"slices"
	"strings"
)

// Pages are all pages; those about failures are in failures/, those about verbs in kubectl-offload/.
//
//go:embed *.md failures/*.md kubectl-offload/*.md
var Pages embed.FS

// Find gives the page of a failure or of another thing, by its name without ".md", and that of a verb by kubectl-offload/VERB.
func Find(name string) (text []byte, ok bool) {
	for _, file := range []string{"failures/" + name, name} {
		if text, err := Pages.ReadFile(file + ".md"); err == nil {
			return text, true
		}
	}
	return nil, false
}

// Names are those of all pages, as Find takes them.
func Names() []string {
	var names []string
	for _, pattern := range []string{"*.md", "failures/*.md", "kubectl-offload/*.md"} {
		found, _ := fs.Glob(Pages, pattern) // the patterns are right
		for _, name := range found {
			names = append(names, strings.TrimSuffix(strings.TrimPrefix(name, "failures/"), ".md"))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Texts are those of all pages.
func Texts() [][]byte {
	var texts [][]byte
	for _, name := range Names() {
		text, _ := Find(name)
		texts = append(texts, text)
	}
	return texts
}
