// Package pages reads the pages of the documentation: which of their blocks are commands, and which of these run in a lab.
//
//	docs/*.md -> Blocks -> deploy tests that need no cluster, and the test in test/e2e that runs the commands
//
// A block is an indented or fenced part without an empty line in it. The comment `<!-- not run here: REASON -->` before a
// block keeps its commands from being run.
package pages

import (
	"regexp"
	"slices"
	"strings"
)

// Block is a part of a page that is not prose.
type Block struct {
	Line   int    // of the page, from 1
	Text   string // without the indentation of its first line
	Reason string // why the commands are not run; "": no marker
}

const indentation = "    "

var (
	marker  = regexp.MustCompile(`^\s*<!-- not run here: (.+) -->$`)
	command = regexp.MustCompile(`^(kubectl|helm|make|kubeadm|ctr|docker|podman|go|lab|ip|curl|echo|export|ethtool|devlink|udevadm|systemctl|mlxconfig|\$|[A-Z]+=\$\()(\s|\S)`)
	// local are programs that the test runs: kubectl, and variables with its output.
	local = regexp.MustCompile(`^(kubectl |[A-Z]+=\$\(kubectl )`)
	// reads are the verbs of kubectl that change nothing.
	reads = regexp.MustCompile(`\bkubectl (-n \S+ )?(get|describe|logs|exec|wait|explain|api-resources|version|rollout status|offload (status|explain|topology|nb|sb|ovs))\b`)
	verb  = regexp.MustCompile(`\bkubectl (-n \S+ )?\w`)
	// scratch is the namespace that the test makes: commands may change it.
	scratch = regexp.MustCompile(`\bNAMESPACE\b`)
)

// Blocks gives the blocks of a page in their order.
func Blocks(page string) (all []Block) {
	var current []string
	var start int
	fenced, after, reason := false, true, ""
	end := func() {
		if len(current) > 0 {
			all = append(all, Block{start, outdent(current), reason})
			current, reason = nil, ""
		}
	}
	for i, line := range strings.Split(page, "\n") {
		m := marker.FindStringSubmatch(line)
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "```"):
			end()
			fenced = !fenced
		case strings.TrimSpace(line) == "":
			end()
			after = true
			continue
		case m != nil:
			end()
			reason = m[1]
		case fenced, strings.HasPrefix(line, indentation) && (after || len(current) > 0):
			if len(current) == 0 {
				start = i + 1
			}
			current = append(current, line)
		default:
			end()
			reason = ""
		}
		after = false
	}
	end()
	return all
}

func outdent(lines []string) string {
	first := len(lines[0]) - len(strings.TrimLeft(lines[0], " "))
	for i, line := range lines {
		lines[i] = line[min(first, len(line)-len(strings.TrimLeft(line, " "))):]
	}
	return strings.Join(lines, "\n")
}

// IsCommand says whether the block begins with a command, and not with output or an object.
func (b Block) IsCommand() bool { return command.MatchString(b.Text) }

// IsObject says whether the block is an object of Kubernetes.
func (b Block) IsObject() bool { return strings.HasPrefix(b.Text, "apiVersion: ") }

// Commands are the block's commands, with continued lines joined.
func (b Block) Commands() []string {
	return strings.Split(regexp.MustCompile(`\\\n\s*`).ReplaceAllString(b.Text, ""), "\n")
}

// Runs says whether a test may run the block in any cluster: all its commands are kubectl's, and they only read, or change
// only the namespace that the test makes.
func (b Block) Runs() bool {
	return b.IsCommand() && b.Reason == "" && !slices.ContainsFunc(b.Commands(), func(c string) bool {
		return !local.MatchString(c) || verb.MatchString(c) && !reads.MatchString(c) && !scratch.MatchString(c)
	})
}

var printed = regexp.MustCompile(`(?m)^<!-- printed: (.+) -->\n\n((?:    .*\n|\n)+)`)

// Printed gives the outputs that a page quotes, by the caption in the comment `<!-- printed: CAPTION -->` before each. A test
// compares the output with that of the program.
func Printed(page string) map[string]string {
	all := map[string]string{}
	for _, m := range printed.FindAllStringSubmatch(page, -1) {
		all[m[1]] = strings.TrimRight(outdent(strings.Split(m[2], "\n")), "\n") + "\n"
	}
	return all
}
