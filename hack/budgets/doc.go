// Package budgets holds the rules of the house style that no linter has: fields and methods of a type, lines of a
// package, columns of a page, and words. Code over a limit fails the test, unless over.txt names the code. A word of
// words.txt fails the test in pages, comments, strings and names, unless unread.txt names the directory. Both lists only
// get shorter: a line that is no longer true fails the test, too.
package budgets
