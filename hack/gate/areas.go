package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

const (
	areasFile = "test/areas.txt"
	lockFile  = "test/areas.lock"
	// everyArea in areas.txt stands for all areas, noArea for none: the core has what is needed, or no test of the lab
	// or of the bench is about the path.
	everyArea, noArea = "all", "none"
)

// pathMap is areas.txt: which areas a path belongs to.
type pathMap struct {
	rows  []pathRow
	areas []string // all of them, sorted
}

// pathRow is a line of areas.txt.
type pathRow struct {
	pattern string // a directory with a slash at its end, a file, or a pattern of path.Match
	areas   []string
}

// parseRows reads a file of the gate: each line has one word for each of the wanted columns, or is empty. What follows
// a "#" is a comment.
func parseRows(name, text string, columns ...string) ([][]string, error) {
	var rows [][]string
	for number, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		switch fields := strings.Fields(line); len(fields) {
		case 0:
		case len(columns):
			rows = append(rows, fields)
		default:
			return nil, fmt.Errorf("%s:%d: want %s: %q", name, number+1, strings.Join(columns, ", "), line)
		}
	}
	return rows, nil
}

// parsePathMap reads areas.txt: a pattern and its areas, with commas between, in each line.
func parsePathMap(text string) (pathMap, error) {
	var m pathMap
	rows, err := parseRows(areasFile, text, "path", "areas")
	if err != nil {
		return m, err
	}
	for _, fields := range rows {
		if _, err := path.Match(fields[0], ""); err != nil {
			return m, fmt.Errorf("%s: %s: %w", areasFile, fields[0], err)
		}
		row := pathRow{fields[0], strings.Split(fields[1], ",")}
		for _, area := range row.areas {
			if area != everyArea && area != noArea && !slices.Contains(m.areas, area) {
				m.areas = append(m.areas, area)
			}
		}
		m.rows = append(m.rows, row)
	}
	slices.Sort(m.areas)
	return m, nil
}

// of gives the areas of a file. The longest pattern that matches decides. A path that no line has is unknown and
// belongs to all areas. Unit tests belong to none: each run has them.
func (m pathMap) of(file string) (areas []string, known bool) {
	if isUnitTest(file) {
		return nil, true
	}
	var best pathRow
	for _, row := range m.rows {
		if row.matches(file) && len(row.pattern) > len(best.pattern) {
			best = row
		}
	}
	switch {
	case best.pattern == "":
		return m.areas, false
	case slices.Contains(best.areas, everyArea):
		return m.areas, true
	case slices.Contains(best.areas, noArea):
		return nil, true
	}
	return best.areas, true
}

// isUnitTest says whether a file is of unit tests alone.
func isUnitTest(file string) bool {
	return !strings.HasPrefix(file, "test/") && (strings.HasSuffix(file, "_test.go") || strings.Contains(file, "/testdata/"))
}

func (r pathRow) matches(file string) bool {
	if strings.HasSuffix(r.pattern, "/") {
		return strings.HasPrefix(file, r.pattern)
	}
	ok, _ := path.Match(r.pattern, file) // parsePathMap has looked at the pattern
	return ok
}

// tree is the content of the work tree: the hash of each file that git tracks or would track.
type tree map[string]string

// readTree asks git for the files of the repository at root and hashes their content.
func readTree(root string) (tree, error) {
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the files of the repository: %w", err)
	}
	t := tree{}
	for _, name := range bytes.Split(out, []byte{0}) {
		if len(name) == 0 {
			continue
		}
		sum, err := hashFile(filepath.Join(root, string(name)))
		if os.IsNotExist(err) {
			continue // tracked, and removed in the work tree
		}
		if err != nil {
			return nil, err
		}
		t[string(name)] = sum
	}
	return t, nil
}

func hashFile(name string) (string, error) {
	info, err := os.Lstat(name)
	if err != nil {
		return "", err
	}
	if info.Mode()&os.ModeSymlink != 0 {
		to, err := os.Readlink(name)
		return "link " + to, err
	}
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return "", fmt.Errorf("hashing %s: %w", name, err)
	}
	return fmt.Sprintf("%o %x", info.Mode().Perm()&0o100, h.Sum(nil)), nil
}

// hashes gives the hash of each area: names and content of its files.
func (t tree) hashes(m pathMap) map[string]string {
	content := map[string]*bytes.Buffer{}
	for _, area := range m.areas {
		content[area] = &bytes.Buffer{}
	}
	for _, file := range sortedKeys(t) {
		areas, _ := m.of(file)
		for _, area := range areas {
			fmt.Fprintf(content[area], "%s\x00%s\n", file, t[file])
		}
	}
	all := map[string]string{}
	for area, text := range content {
		sum := sha256.Sum256(text.Bytes())
		all[area] = hex.EncodeToString(sum[:16])
	}
	return all
}

// unknown are the files that no line of areas.txt has.
func (t tree) unknown(m pathMap) []string {
	return slices.DeleteFunc(sortedKeys(t), func(file string) bool {
		_, known := m.of(file)
		return known
	})
}

// green is the last green run of an area.
type green struct {
	hash, commit string
}

// lock is areas.lock.
type lock map[string]green

// parseLock reads areas.lock: area, hash and commit in each line. A line that is not of this form is an error, and then
// no area is left out.
func parseLock(text string) (lock, error) {
	rows, err := parseRows(lockFile, text, "area", "hash", "commit")
	if err != nil {
		return nil, err
	}
	l := lock{}
	for _, fields := range rows {
		l[fields[0]] = green{fields[1], fields[2]}
	}
	return l, nil
}

const lockHead = `# The hash of the content of each area's paths at its last green run, and the commit. hack/gate writes this file.
`

func (l lock) String() string {
	var b strings.Builder
	b.WriteString(lockHead)
	for _, area := range sortedKeys(l) {
		fmt.Fprintf(&b, "%-10s %s %s\n", area, l[area].hash, l[area].commit)
	}
	return b.String()
}

// choice is what a run has, and why.
type choice struct {
	areas []string
	said  []string // a line for each area
}

// choose takes the areas whose hash is not that of their last green run; all if the lock cannot be read.
func choose(now map[string]string, last lock, lockErr error, changed func(area, since string) string) choice {
	var c choice
	for _, area := range sortedKeys(now) {
		was, known := last[area]
		switch {
		case lockErr != nil:
			c.areas = append(c.areas, area)
			c.said = append(c.said, fmt.Sprintf("area %s: runs, %v", area, lockErr))
		case !known:
			c.areas = append(c.areas, area)
			c.said = append(c.said, fmt.Sprintf("area %s: runs, %s has no green run of it", area, lockFile))
		case was.hash != now[area]:
			c.areas = append(c.areas, area)
			c.said = append(c.said, fmt.Sprintf("area %s: runs, changed since %s: %s", area, was.commit, changed(area, was.commit)))
		default:
			c.said = append(c.said, fmt.Sprintf("area %s: left out, its paths are those of its green run at %s", area, was.commit))
		}
	}
	return c
}

// changedFiles names up to five files of an area that differ from a commit.
func (m pathMap) changedFiles(root string) func(area, since string) string {
	return func(area, since string) string {
		cmd := exec.Command("git", "diff", "--name-only", since)
		cmd.Dir = root
		out, err := cmd.Output()
		if err != nil {
			return "files, but git does not have that commit"
		}
		files := slices.DeleteFunc(strings.Fields(string(out)), func(file string) bool {
			areas, _ := m.of(file)
			return !slices.Contains(areas, area)
		})
		if len(files) > 5 {
			return strings.Join(files[:5], ", ") + fmt.Sprintf(" and %d more", len(files)-5)
		}
		if len(files) == 0 {
			return "files that git does not track"
		}
		return strings.Join(files, ", ")
	}
}

func sortedKeys[V any, M ~map[string]V](m M) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
