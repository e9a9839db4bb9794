package answer

import (
	"fmt"
	"io"
	"os"
	"slices"
)

// MissingOnce says what could not be read when that changes.
type MissingOnce []string

// Say says it.
func (m *MissingOnce) Say(w io.Writer, missing []string) {
	if !slices.Equal(*m, missing) {
		for _, text := range missing {
			fmt.Fprintln(w, "not known:", text)
		}
	}
	*m = missing
}

// ClearScreen has a terminal begin at its upper left corner; elsewhere answers follow each other.
func ClearScreen(w io.Writer) {
	if isTerminal(w) {
		_, _ = io.WriteString(w, "\x1b[H\x1b[2J") // what follows fails, too
	}
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	stat, err := file.Stat()
	return err == nil && stat.Mode()&os.ModeCharDevice != 0
}
