// Package contract holds the rules of the code execution contract for one execution:
// the limits, the access levels, the input checks IV-01 to IV-05 and the meaning of
// exit codes. The rules are data and total functions over values. The package knows no
// policy: a profile chooses within these bounds. The page for people is
// specs/execution.md, which TestPage compares with this package.
//
// # Limits
//
// Each limit has a least and a greatest value, and most limits have a default. A value
// outside of the bounds is an error, never clamped. TestLimitVectors lists all limits.
//
// # Access levels
//
// An FSLevel says what a command can read and write. Users do not name a level:
// ProfileAccess returns the access of a built-in profile.
//
// # Input checks
//
//	IV-01  CheckCommand      the command's name is in the allowlist
//	IV-02  CheckArgument     no argument has characters with a meaning for a shell that reads it
//	IV-03  CheckPath         a path is relative and stays beneath its folder
//	IV-04  CheckEnvironment  every variable is an allowed one
//
// A check refuses and never repairs. It escapes, strips and truncates nothing, so that
// the command that runs is the command that was decided on. Every check refuses text
// with NUL, where the system would cut it, and text that is not UTF-8. Each check has
// vectors in specs/vectors/execution/iv.json (TestInputVectors).
//
// # Exit codes
//
// Interpret says what an exit code means and what to do next, for 0 to 255
// (TestExitCodeVectors).
package contract

// Limit bounds one number. A value outside [Min, Max] is an error, never clamped. A
// Default outside [Min, Max] means that the limit has no default.
type Limit struct {
	Default, Min, Max int
}

// Holds says whether v lies within the limit.
func (l Limit) Holds(v int) bool { return v >= l.Min && v <= l.Max }

// HasDefault says whether the limit has a default.
func (l Limit) HasDefault() bool { return l.Holds(l.Default) }

// TimeoutMS is the wall time of one execution in milliseconds
// (code execution contract, "Default Limits").
func TimeoutMS() Limit { return Limit{Default: 30000, Min: 1000, Max: 600000} }

// MemoryMB is the memory of one execution in MiB (code execution contract, "Default
// Limits").
func MemoryMB() Limit { return Limit{Default: 512, Min: 64, Max: 4096} }

// CPUCores is the number of logical cores of one execution
// (code execution contract, "Default Limits").
func CPUCores() Limit { return Limit{Default: 1, Min: 1, Max: 4} }

// MaxChildren is the number of child processes that an execution may have at once (code
// execution contract, "Default Limits").
func MaxChildren() Limit { return Limit{Default: 10, Min: 0, Max: 100} }

// MaxOutputFiles is the number of output files that a profile may allow. It has no
// default: each profile states it.
func MaxOutputFiles() Limit { return Limit{Min: 1, Max: 10000} }

// MaxTotalOutputBytes is the total size of output files, in bytes, that a profile may
// allow. It has no default: each profile states it.
func MaxTotalOutputBytes() Limit { return Limit{Min: 1024, Max: 1073741824} }

// StdoutBytes is the number of bytes of standard output that are kept, from its start.
// Further bytes are read and counted, but not kept (code execution contract, "Output
// Capture").
func StdoutBytes() Limit { return Limit{Default: 1048576, Min: 1024, Max: 1048576} }

// StderrBytes is the number of bytes of standard error that are kept, from its start.
// Further bytes are read and counted, but not kept (code execution contract, "Output
// Capture").
func StderrBytes() Limit { return Limit{Default: 262144, Min: 1024, Max: 262144} }

// OutputFilesBytes is the total size, in bytes, of the output files of an execution
// request (code execution contract, "Output Capture"). For an intent that runs, the
// total of its profile applies instead.
func OutputFilesBytes() Limit { return Limit{Default: 10485760, Min: 1024, Max: 10485760} }

// ArtifactsBytes is the total size, in bytes, of the artifacts of an execution request
// (code execution contract, "Output Capture").
func ArtifactsBytes() Limit { return Limit{Default: 10485760, Min: 1024, Max: 10485760} }

// InputFilesBytes is the total size, in bytes, of the input files that may be staged for one
// execution (code execution contract, IV-05).
func InputFilesBytes() Limit { return Limit{Default: 67108864, Min: 0, Max: 67108864} }

// KeptBytes returns the number of bytes of each stream that are kept, under a policy
// that limits the total output. It is the contract's limit, or the total if the total
// is smaller.
func KeptBytes(total int) (stdout, stderr int) {
	total = max(total, 0)
	return min(StdoutBytes().Default, total), min(StderrBytes().Default, total)
}

// The limits of an intent. A document that exceeds one of them is not an intent
// (RUN_E003).
const (
	MaxGoalRunes       = 65536 // characters of the goal
	MaxConstraints     = 1000  // constraints
	MaxConstraintRunes = 8192  // characters of one constraint
	MaxActions         = 256   // actions
	MaxInputs          = 1000  // declared inputs
	MaxOutputs         = 10000 // declared outputs
	MaxPathRunes       = 1024  // characters of a path
	MaxArgs            = 1024  // words of one argv
	MaxArgRunes        = 131072
	MaxEnv             = 64 // environment names of one action
	MaxRiskTags        = 32 // risk tags of one action

	// MaxStringBytes is the greatest length of one argument, or of one variable as
	// NAME=VALUE. A kernel with the smallest pages starts no command with a longer
	// string: MAX_ARG_STRLEN is 32 pages of 4096 bytes, including the NUL at the end.
	MaxStringBytes = 32*4096 - 1
)
