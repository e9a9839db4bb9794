// Package budgets holds the limits of size that no linter has: fields and methods of a type, lines of a package. Its
// test fails for code that is over a limit, unless over.txt names it, and for lines of over.txt that are no longer true.
package budgets
