// Package devel holds what only the authors of policies use: it runs their tests, warns
// of rules that can never hold, and lays modules out.
//
// It compiles and evaluates through package policy, so that a test sees the functions,
// the limits and the messages of a decision.
package devel
