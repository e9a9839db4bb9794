// Package flags has values of flags that refuse what a verb does not take, before anything is done.
//
// Place in the data flow:
//
//	arguments -> cobra -> Choice, AtLeast -> a verb of kubectl offload
package flags

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Choice is the value of a flag that takes one of some words. Another word is a wrong command before anything is done.
type Choice struct {
	value *string
	// Words are those that the flag takes.
	Words []string
}

// String implements pflag.Value.
func (c Choice) String() string {
	if c.value == nil { // pflag makes one to know the default
		return ""
	}
	return *c.value
}

// Set implements pflag.Value.
func (c Choice) Set(text string) error {
	if !slices.Contains(c.Words, text) {
		return fmt.Errorf("want one of %s", strings.Join(c.Words, ", "))
	}
	*c.value = text
	return nil
}

// Type implements pflag.Value.
func (Choice) Type() string { return "string" }

// Choose adds a flag with its words. Its name may have one letter behind a comma. Empty is a word if it is the default.
func Choose(f *pflag.FlagSet, value *string, name, usage string, words []string) {
	name, short, _ := strings.Cut(name, ",")
	if *value == "" {
		words = append([]string{""}, words...)
	}
	f.VarP(Choice{value, words}, name, short, usage)
}

// More adds words to a flag of Choose.
func More(f *pflag.Flag, usage string, words ...string) {
	if of, ok := f.Value.(Choice); ok {
		f.Usage, f.Value = usage, Choice{of.value, append(slices.Clone(of.Words), words...)}
	}
}

// AtLeast refuses numbers and times that are too small, of flags by their names.
func AtLeast[T int | int64 | float64 | time.Duration](least T, values map[string]T) error {
	for name, value := range values {
		if value < least {
			return fmt.Errorf("--%s=%v: want %v or more", name, value, least)
		}
	}
	return nil
}

// IsNew refuses a file that is there: none is replaced.
func IsNew(path string) error {
	if _, err := os.Lstat(path); path != "" && err == nil {
		return fmt.Errorf("%s is there already: want the name of a new file", path)
	}
	return nil
}

// IsWritable refuses a file whose directory is not there; "": none is written.
func IsWritable(path string) error {
	if path == "" {
		return nil
	}
	_, err := os.Stat(filepath.Dir(path))
	return err
}
