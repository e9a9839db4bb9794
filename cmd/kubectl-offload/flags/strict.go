package flags

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// Strict has wrong verbs, flags and arguments of a command and of those below it end with an error that wrong makes. A command that
// only has verbs prints its help without one.
func Strict(cmd *cobra.Command, wrong func(error) error) {
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if cmd.HasSubCommands() && cmd.Flags().NArg() > 0 { // the word before the flag is no verb
			err = noVerb(cmd, cmd.Flags().Arg(0))
		}
		return wrong(err)
	})
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.Args = cobra.ArbitraryArgs
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cmd.Help()
			}
			return wrong(noVerb(cmd, args[0]))
		}
	}
	if args := cmd.Args; args != nil {
		cmd.Args = func(cmd *cobra.Command, given []string) error { return wrong(args(cmd, given)) }
	}
	for _, verb := range cmd.Commands() {
		Strict(verb, wrong)
	}
}

func noVerb(cmd *cobra.Command, word string) error {
	cmd.SuggestionsMinimumDistance = 2
	text := fmt.Sprintf("%s has no verb %q", cmd.CommandPath(), word)
	if like := cmd.SuggestionsFor(word); len(like) > 0 {
		text += fmt.Sprintf(". Did you mean %s?", strings.Join(like, " or "))
	}
	return errors.New(text)
}
