package harness

import (
	"flag"

	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/result"
)

// The names that tests outside the package use besides the exported ones.
var (
	UpdateVectors = flag.Bool("update", false, "fill in the canonical subsets of the vectors whose outcome and reasons agree")
	Agree         = agree
)

const Window = window

func (g *Gate) Seal(res result.RunResult) ([]byte, canon.Document, error) { return g.seal(res) }
