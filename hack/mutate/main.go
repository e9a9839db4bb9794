// Mutate changes one line of the product at a time and asks which tests see it: unit tests, the core, the area of the
// line, or none. The lines are drawn by a fixed seed.
//
// Place in the data flow: sites.go finds what can be changed in a file. `mutate run` makes each change in a work tree
// of its own, runs `go test ./...` there and then, while nothing fails, the gate's core and areas. It appends a row for
// each change to a file, and goes on where it stopped. docs/testing.md has the last result.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// places are the parts of the product from which changes are drawn.
func places() []string {
	return []string{"pkg/ovn", "pkg/policy", "pkg/service", "pkg/ipam", "pkg/cni", "pkg/vf", "pkg/node", "pkg/agent"}
}

// options are the flags.
type options struct {
	seed   uint64
	count  int
	file   string
	inLabs bool
}

func command() *cobra.Command {
	o := options{}
	root := &cobra.Command{Use: "mutate", Short: "which tests see a change of one line", SilenceUsage: true, SilenceErrors: true}
	root.CompletionOptions.DisableDefaultCmd = true
	flags := root.PersistentFlags()
	flags.Uint64Var(&o.seed, "seed", 31, "seed of the draw")
	flags.IntVar(&o.count, "count", 30, "number of changes")
	list := &cobra.Command{Use: "list", Short: "print the changes", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error {
		drawn, err := draw(".", o.seed, o.count)
		for _, s := range drawn {
			fmt.Println(s)
		}
		return err
	}}
	run := &cobra.Command{Use: "run", Short: "make each change and run the tests (root)", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return o.run(cmd.Context())
	}}
	run.Flags().StringVar(&o.file, "file", "_output/mutations.tsv", "file to which results are appended")
	run.Flags().BoolVar(&o.inLabs, "labs", true, "run core and areas for what unit tests do not see")
	root.AddCommand(list, run)
	return root
}

// draw takes changes of the places at random.
func draw(root string, seed uint64, count int) ([]site, error) {
	var all []site
	for _, place := range places() {
		found, err := sitesBelow(root, place)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:min(count, len(all))], nil
}

func (o options) run(ctx context.Context) error {
	drawn, err := draw(".", o.seed, o.count)
	if err != nil {
		return err
	}
	root, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	t := tree{root: root, dir: filepath.Join(root, "_output/mutated"), inLabs: o.inLabs}
	if err := t.make(ctx); err != nil {
		return err
	}
	if _, err := t.output(ctx, t.dir, unitTests...); err != nil {
		return fmt.Errorf("the unit tests fail without a change: %w", err)
	}
	done, err := os.ReadFile(o.file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, s := range drawn {
		if strings.Contains(string(done), s.String()+"\t") {
			continue
		}
		seen, err := t.try(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
		if err := appendLine(o.file, s.String()+"\t"+seen); err != nil {
			return err
		}
		fmt.Printf("%s: %s\n", s, seen)
	}
	return nil
}

func appendLine(name, line string) error {
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = fmt.Fprintln(file, line)
	return err
}

// tree is a work tree of the commit in which changes are made.
type tree struct {
	root, dir string
	inLabs    bool
}

func (t tree) make(ctx context.Context) error {
	if _, err := os.Stat(t.dir); err == nil {
		return t.command(ctx, t.dir, "git", "checkout", "--quiet", "--force", "--detach", t.head(ctx))
	}
	return t.command(ctx, t.root, "git", "worktree", "add", "--quiet", "--detach", t.dir, "HEAD")
}

// head is the commit of the repository.
func (t tree) head(ctx context.Context) string {
	cmd := exec.CommandContext(ctx, "git", "rev-parse", "HEAD")
	cmd.Dir = t.root
	out, _ := cmd.Output()
	return strings.TrimSpace(string(out))
}

// level is a kind of tests and the command that runs them.
type level struct {
	name string
	args []string
}

var unitTests = []string{"go", "test", "-vet=off", "./..."}

// try makes a change, and says what saw it: the kind of tests, and the first tests that failed.
func (t tree) try(ctx context.Context, s site) (string, error) {
	name := filepath.Join(t.dir, s.file)
	before, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	defer os.WriteFile(name, before, 0o644) //nolint:errcheck // the next one fails by its offset then
	if err := os.WriteFile(name, s.apply(before), 0o644); err != nil {
		return "", err
	}
	if t.command(ctx, t.dir, "go", "build", "./pkg/...", "./cmd/...") != nil {
		return "compiler", ctx.Err()
	}
	levels := []level{{"unit tests", unitTests}}
	if t.inLabs {
		areas, err := t.areas(ctx, s.file)
		if err != nil {
			return "", err
		}
		levels = append(levels, level{"core", []string{"make", "area", "A=core"}})
		for _, area := range areas {
			levels = append(levels, level{"area " + area, []string{"make", "area", "A=" + area}})
		}
	}
	for _, level := range levels {
		out, err := t.output(ctx, t.dir, level.args...)
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if err != nil {
			return level.name + "\t" + strings.Join(failedTests(out), ", "), nil
		}
	}
	return "nothing", nil
}

// failure is the line of a failed test that is not a subtest, as go test prints it.
var failure = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// failedTests are the names of at most three failed tests in the output of go test.
func failedTests(out []byte) []string {
	var names []string
	for _, found := range failure.FindAllSubmatch(out, 3) {
		names = append(names, string(found[1]))
	}
	return names
}

// areas asks the gate for the areas of a path.
func (t tree) areas(ctx context.Context, file string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", "run", "./hack/gate", "areas", file)
	cmd.Dir = t.dir
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("asking for the areas of %s: %w", file, err)
	}
	return strings.Fields(string(out)), nil
}

// command runs a program and drops its output.
func (t tree) command(ctx context.Context, dir string, args ...string) error {
	_, err := t.output(ctx, dir, args...)
	return err
}

// output runs a program and prints the end of its output when it fails.
func (t tree) output(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n%s\n", strings.Join(args, " "), err, out[max(0, len(out)-2000):])
	}
	return out, err
}
