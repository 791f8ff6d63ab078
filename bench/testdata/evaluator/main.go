// Command evaluator links OPA's compiler and evaluator, and does nothing: what a process
// that can evaluate Rego costs before it has read anything.
package main

import (
	_ "github.com/open-policy-agent/opa/v1/ast"
	_ "github.com/open-policy-agent/opa/v1/storage/inmem"
	_ "github.com/open-policy-agent/opa/v1/topdown"
)

func main() {}
