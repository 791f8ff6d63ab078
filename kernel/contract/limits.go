// Package contract holds the numbers that an execution and an intent are bound
// by: for each limit its default, its least and its greatest value, with the
// clause that sets it. It knows no policy; a profile chooses within these.
package contract

// Limit is one bounded number. A value outside [Min, Max] is an error, never
// clamped.
type Limit struct {
	Default, Min, Max int
}

// Holds says whether v lies within the limit.
func (l Limit) Holds(v int) bool { return v >= l.Min && v <= l.Max }

// TimeoutMS is the wall time of one execution in milliseconds
// (code execution contract, "Default Limits").
func TimeoutMS() Limit { return Limit{Default: 30000, Min: 1000, Max: 600000} }

// MemoryMB is the memory of one execution in MiB (code execution contract, "Default
// Limits").
func MemoryMB() Limit { return Limit{Default: 512, Min: 64, Max: 4096} }

// CPUCores is the number of logical cores of one execution
// (code execution contract, "Default Limits").
func CPUCores() Limit { return Limit{Default: 1, Min: 1, Max: 4} }

// MaxChildren is how many child processes an execution may have at once
// (code execution contract, "Default Limits").
func MaxChildren() Limit { return Limit{Default: 10, Min: 0, Max: 100} }

// MaxOutputFiles is how many output files a profile may allow. It has no
// default: a profile says it.
func MaxOutputFiles() Limit { return Limit{Min: 1, Max: 10000} }

// MaxTotalOutputBytes is how many bytes of output files a profile may allow
// together. It has no default: a profile says it.
func MaxTotalOutputBytes() Limit { return Limit{Min: 1024, Max: 1073741824} }

// The limits of an intent. Beyond one of them it is not an intent (RUN_E003).
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
)
