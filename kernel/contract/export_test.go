package contract

import (
	"slices"
	"strings"
)

// What follows lists the rules of this package for tests: for the page of the contract, for
// vectors, and for the order of the levels. The program itself asks for one rule at a time.

// FSLevels lists the file system levels, from narrow to wide.
func FSLevels() []FSLevel { return []FSLevel{Minimal, Standard, Extended, Elevated} }

// Reads names what the command can read: work, tree, deps, system.
func (a FSAccess) Reads() []string {
	return words([]string{"work", "tree", "deps", "system"}, a.WorkRead, a.TreeRead, a.DepsRead, a.SystemRead)
}

// Writes names what the command can write: work, output, named.
func (a FSAccess) Writes() []string {
	return words([]string{"work", "output", "named"}, a.WorkWrite, a.OutputWrite, a.NamedWrite)
}

func words(list []string, has ...bool) []string {
	out := []string{}
	for i, word := range list {
		if has[i] {
			out = append(out, word)
		}
	}
	return out
}

// Guarded lists the environment names that no profile can allow.
func Guarded() []GuardedNames {
	list := slices.Clone(guarded)
	for i, g := range list {
		list[i].Names = strings.Join(strings.Fields(g.Names), " ")
	}
	return list
}

// StdinBytes is the number of bytes that a command may get on standard input (code
// execution contract, IV-05).
func StdinBytes() Limit { return Limit{Default: 1048576, Min: 0, Max: 1048576} }

// InputFiles is the number of input files that may be staged for one execution (code
// execution contract, IV-05).
func InputFiles() Limit { return Limit{Default: MaxInputs, Min: 0, Max: MaxInputs} }

// NamedLimit is a limit with its name, its unit and its source.
type NamedLimit struct {
	Name   string // the name in a profile or a request, such as timeout_ms
	Limit  Limit
	Unit   string // ms, MiB, bytes, cores, processes, files
	Clause string // clause of the code execution contract, or another source of the limit
}

// Limits lists the limits of an execution, in the order of specs/execution.md.
func Limits() []NamedLimit {
	const (
		defaults = "Default Limits"
		capture  = "Output Capture"
		profile  = "policy profile"
		inputs   = "IV-05"
	)
	return []NamedLimit{
		{"timeout_ms", TimeoutMS(), "ms", defaults},
		{"memory_mb", MemoryMB(), "MiB", defaults},
		{"cpu_cores", CPUCores(), "cores", defaults},
		{"max_children", MaxChildren(), "processes", defaults},
		{"max_output_files", MaxOutputFiles(), "files", profile},
		{"max_total_output_bytes", MaxTotalOutputBytes(), "bytes", profile},
		{"stdout_bytes", StdoutBytes(), "bytes", capture},
		{"stderr_bytes", StderrBytes(), "bytes", capture},
		{"output_files_bytes", OutputFilesBytes(), "bytes", capture},
		{"artifacts_bytes", ArtifactsBytes(), "bytes", capture},
		{"stdin_bytes", StdinBytes(), "bytes", inputs},
		{"input_files", InputFiles(), "files", inputs},
		{"input_files_bytes", InputFilesBytes(), "bytes", inputs},
	}
}
