// Package specs holds the JSON Schemas of Fiador's documents and checks decoded
// documents against them.
//
// # Schemas
//
// Each schema is a draft-07 file of this folder, embedded into the program. Its $id is the
// address of the file in the tag of this release, and no part of the program reads that
// address. The schemas use a part of draft-07, which TestSchemaStructure proves, and compile
// in the strict mode of ajv (.ci/ajv.mjs). additionalProperties is false, or describes the
// values of an object whose names propertyNames and maxProperties limit. The documents of
// a suite's version directory alone have free members everywhere. Every string
// has a maxLength and every list a maxItems. References stay in the file and form no
// loop. There is no format, no oneOf and no patternProperties. Only data beneath context,
// params and spec is free, and what freeData of the tests lists for suites.
//
// Lengths count characters (Unicode code points). Numbers have their canonical form:
// 1000.0 and 1e3 have become 1000 before validation.
//
// # Validation
//
// Validate takes a decoded canonical value (canon.Document.Value), never text,
// so that schema, policy and hash see the same values. It reads no file and
// opens no connection: a reference that leaves its schema is an error when the
// schema is compiled (TestRemoteReference). A panic in the validator becomes an
// *Error (TestValidatorPanic); so does a value that is no decoded JSON
// (TestForeignValue), because the validator would let it pass unseen.
//
// The cost of a document is limited, whatever its content: after about 256 certain
// faults, the rest of its lists is not checked (TestCrowdedDocument).
//
// This is the only package that imports gojsonschema, which has the last word on every
// document from outside that is not valid, and words what is wrong. Walk decides by the
// same schemas, whose shapes are precomputed in shapes.go, so that a valid intent, profile
// or result needs no compiled schema (TestWalkAgrees). The files of packs are validated by
// Walk alone.
package specs

import (
	"embed"
	"io/fs"
	"strconv"
	"sync"
)

//go:embed *.schema.json
var files embed.FS

//go:embed vectors/safe-run/vectors.json vectors/safe-run/expected
var safeRun embed.FS

//go:embed vectors/run/*.json
var runVectors embed.FS

// Kind names a document that has a schema.
type Kind string

// The kinds of document.
const (
	KindAdapter          Kind = "adapter"
	KindAgentAnswer      Kind = "agent-answer"
	KindBundle           Kind = "bundle"
	KindEvidence         Kind = "evidence"
	KindExecutionReport  Kind = "execution-report"
	KindExecutionRequest Kind = "execution-request"
	KindIntent           Kind = "intent"
	KindLedgerRecord     Kind = "ledger-record"
	KindModelAdapters    Kind = "model-adapters"
	KindModelIO          Kind = "model-io"
	KindPackEvidence     Kind = "pack-evidence"
	KindPackPatch        Kind = "pack-patch"
	KindPackPolicy       Kind = "pack-policy"
	KindPackRunner       Kind = "pack-runner"
	KindPolicyInput      Kind = "policy-input"
	KindProfile          Kind = "profile"
	KindRemote           Kind = "remote"
	KindRemoteSpec       Kind = "remote-spec"
	KindRemoteResult     Kind = "remote-result"
	KindRunError         Kind = "run-error"
	KindRunResult        Kind = "run-result"
	KindServer           Kind = "server"
	KindSuiteAgent       Kind = "suite-agent"
	KindSuiteManifest    Kind = "suite-assets-manifest"
	KindSuiteCase        Kind = "suite-case"
	KindSuiteCases       Kind = "suite-cases"
	KindSuiteCompare     Kind = "suite-compare"
	KindSuiteEvaluation  Kind = "suite-evaluation"
	KindSuiteFailureMeta Kind = "suite-failure-meta"
	KindSuiteRedact      Kind = "suite-redact"
	KindSuiteRun         Kind = "suite-run"
	KindTool             Kind = "tool"
	KindToolIO           Kind = "tool-io"
	KindToolIndex        Kind = "tool-index"
	KindWorkAgents       Kind = "work-agents"
	KindWorkPlan         Kind = "work-plan"
	KindWorkReceipt      Kind = "work-receipt"
	KindWorkResult       Kind = "work-result"
)

// MaxViolations is the maximum number of violations that Validate returns.
const MaxViolations = 20

// Violation is one place at which a document breaks its schema.
type Violation struct {
	// Pointer is the JSON Pointer (RFC 6901) of the wrong value, cut at 256 bytes. For
	// an unknown member it leads to that member, for a missing one to the object without
	// it.
	Pointer string
	// Rule is the broken schema keyword, for example maxLength.
	Rule string
	// Msg says what is wrong: lower-case, values quoted and cut at 256 bytes.
	Msg string
	// Member is the name of a missing or an unknown member, or empty.
	Member string
	// Near is the known member with the nearest name to an unknown one's, or empty.
	Near string
	// More is the number of violations left out after this one. Only the last of
	// MaxViolations has it. It is a lower bound if the document has more than 256.
	More int
}

// Pointers returns the pointers of violations.
func Pointers(violations []Violation) []string {
	list := make([]string, len(violations))
	for i, v := range violations {
		list[i] = v.Pointer
	}
	return list
}

// Error says that a document could not be checked, and says nothing about the document.
// The schema is unknown or does not compile, the value is no decoded JSON, or the
// validator failed.
type Error struct {
	Kind  Kind
	Msg   string
	Cause error // the wrapped error, or nil
}

// Error returns the message.
func (e *Error) Error() string {
	return "schema " + strconv.Quote(string(e.Kind)) + ": " + e.Msg
}

// Unwrap returns the wrapped error.
func (e *Error) Unwrap() error { return e.Cause }

// Set is the embedded schemas. Each is compiled once, at its first use. Several
// goroutines may use a Set. The zero value knows no schema.
type Set struct {
	schemas map[Kind]func() (*schema, error)
}

// New returns the set of the embedded schemas. It reads and compiles none of them, so it
// is cheap.
func New() (*Set, error) {
	s := &Set{schemas: map[Kind]func() (*schema, error){}}
	for _, name := range Names() {
		kind := Kind(name)
		s.schemas[kind] = sync.OnceValues(func() (*schema, error) {
			src, ok := Schema(name)
			if !ok {
				return nil, &Error{Kind: kind, Msg: "no such schema"}
			}
			return compile(kind, src)
		})
	}
	return s, nil
}

// Validate checks v by the schema of kind. v is a decoded canonical value and is not
// changed. If there are no violations, v is valid.
//
// The violations are ordered by the UTF-16 code units of their pointers. There are at
// most MaxViolations; Violation.More of the last one says how many more there are. Equal
// values give equal violations. The error is always an *Error.
//
// A value that Walk finds right is valid. For every other one the schema is compiled, and
// gojsonschema decides.
func (s *Set) Validate(kind Kind, v any) ([]Violation, error) {
	get, ok := s.schemas[kind]
	if !ok {
		return nil, &Error{Kind: kind, Msg: "no such schema"}
	}
	if _, faults := Walk(kind, v, 0); faults == 0 {
		return nil, nil
	}
	c, err := get()
	if err != nil {
		return nil, err
	}
	return c.validate(v)
}

// Names lists the schemas that Schema returns, sorted. Each is a Kind.
func Names() []string {
	return []string{
		string(KindAdapter), string(KindAgentAnswer), string(KindBundle), string(KindEvidence), string(KindExecutionReport), string(KindExecutionRequest), string(KindIntent), string(KindLedgerRecord), string(KindModelAdapters), string(KindModelIO),
		string(KindPackEvidence), string(KindPackPatch), string(KindPackPolicy), string(KindPackRunner), string(KindPolicyInput),
		string(KindProfile), string(KindRemoteResult), string(KindRemoteSpec), string(KindRemote), string(KindRunError), string(KindRunResult),
		string(KindServer), string(KindSuiteAgent), string(KindSuiteManifest), string(KindSuiteCase), string(KindSuiteCases), string(KindSuiteCompare), string(KindSuiteEvaluation), string(KindSuiteFailureMeta), string(KindSuiteRedact), string(KindSuiteRun),
		string(KindToolIndex), string(KindToolIO), string(KindTool), string(KindWorkAgents), string(KindWorkPlan),
		string(KindWorkReceipt), string(KindWorkResult),
	}
}

// Schema returns the text of a schema's file by the schema's name.
func Schema(name string) ([]byte, bool) {
	src, err := files.ReadFile(name + ".schema.json")
	return src, err == nil
}

// SafeRunVectors returns the folder vectors/safe-run: vectors.json, and golden logs in
// expected.
func SafeRunVectors() fs.FS { return folder(safeRun, "vectors/safe-run") }

// RunVectors returns the folder vectors/run: files of intents, with their expected
// results.
func RunVectors() fs.FS { return folder(runVectors, "vectors/run") }

func folder(files embed.FS, path string) fs.FS {
	sub, err := fs.Sub(files, path)
	if err != nil {
		panic(err) // the path is a constant
	}
	return sub
}
