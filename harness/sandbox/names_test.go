package sandbox

import "github.com/fiador/fiador/evidence"

// The names of clauses, which the tests use in tables.
const (
	Enforced = evidence.Enforced
	Partial  = evidence.Partial
	Absent   = evidence.Absent

	ClauseTimeout   = evidence.ClauseTimeout
	ClauseMemory    = evidence.ClauseMemory
	ClauseProcesses = evidence.ClauseProcesses
	ClauseFork      = evidence.ClauseFork
	ClauseCPU       = evidence.ClauseCPU
	ClauseFiles     = evidence.ClauseFiles
	ClauseDisk      = evidence.ClauseDisk
	ClauseNetwork   = evidence.ClauseNetwork
	ClauseProcs     = evidence.ClauseProcs
	ClauseKernel    = evidence.ClauseKernel
	ClauseStreams   = evidence.ClauseStreams
	ClauseEnv       = evidence.ClauseEnv
	ClauseMetadata  = evidence.ClauseMetadata
)

type (
	Clause = evidence.Clause
	Status = evidence.Status
)
