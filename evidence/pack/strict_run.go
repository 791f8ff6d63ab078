package pack

import (
	"strconv"
	"strings"

	"github.com/fiador/fiador/kernel"
	"github.com/fiador/fiador/kernel/canon"
	"github.com/fiador/fiador/kernel/contract"
	"github.com/fiador/fiador/kernel/result"
)

// readRun is ST2: run.json has the members of specs/run-result.schema.json, their types
// and bounds, and no others.
func (s *strictLevel) readRun() {
	d := s.doc(RunFile)
	if d == nil || d.value == nil {
		return
	}
	r := s.shape("ST2", RunFile)
	if run := r.runResult(d.value); !r.bad {
		s.run = run
	}
}

func (r *shape) runResult(v any) *result.RunResult {
	o := r.object(v)
	run := &result.RunResult{
		RunSchemaVersion: o.one("run_schema_version", result.SchemaVersion),
		RunID:            o.form("run_id", isRunID, "the name of a run"),
		StartedAt:        o.form("started_at", looksLikeTime, "a time in UTC with milliseconds"),
		CompletedAt:      o.form("completed_at", looksLikeTime, "a time in UTC with milliseconds"),
		KernelVersion:    o.form("kernel_version", isVersion, "a version"),
		ExecutionMode:    o.one("execution_mode", "plan-only", "execute-sandbox"),
		ModelMode:        o.one("model_mode", "none", ModeRecord, ModeReplay),
		KernelResultKind: kernel.Outcome(o.one("kernel_result_kind", "BUNDLE", "CLARIFY", "REFUSE")),
	}
	o.within("policy", func(v any) { run.Policy = r.policy(v) })
	o.within("policy_provenance", func(v any) { run.PolicyProvenance = r.provenance(v) })
	o.within("intent", func(v any) {
		o := r.object(v)
		run.Intent = result.IntentRef{Path: o.text("path", 0, 4096), SHA256: o.hash("sha256")}
		o.done()
	})
	if !o.null("bundle") {
		o.within("bundle", func(v any) {
			o := r.object(v)
			run.Bundle = &result.BundleRef{BundleID: o.form("bundle_id", identifier("bundle_"), "the id of a bundle"), SHA256: o.hash("sha256")}
			o.done()
		})
	}
	if !o.null("execution") {
		o.within("execution", func(v any) { run.Execution = r.execution(v) })
	}
	o.within("decision", func(v any) {
		o := r.object(v)
		run.Decision = kernel.DecisionRecord{
			Accepted: o.yes("accepted"), Reasons: o.texts("reasons", 16000, upTo(4096), "a string of at most 4096 characters"),
			ValidatedByKernel: o.yes("validated_by_kernel"),
		}
		o.done()
	})
	if o.has("clarify_questions") {
		run.ClarifyQuestions = o.texts("clarify_questions", 4000, upTo(2048), "a string of at most 2048 characters")
	}
	if o.has("refuse_reason") {
		run.RefuseReason = o.text("refuse_reason", 0, 8192)
	}
	o.done()
	return run
}

func (r *shape) policy(v any) kernel.PolicyProfile {
	o := r.object(v)
	defer o.done()
	return kernel.PolicyProfile{
		Name:                o.form("name", isProfileName, "the name of a profile"),
		AllowNetwork:        o.yes("allow_network"),
		TimeoutMS:           o.limit("timeout_ms", contract.TimeoutMS()),
		MaxOutputFiles:      o.limit("max_output_files", contract.MaxOutputFiles()),
		MaxTotalOutputBytes: o.limit("max_total_output_bytes", contract.MaxTotalOutputBytes()),
		AllowedCommands:     o.texts("allowed_commands", 256, isCommandName, "a bare command name"),
		AllowedWriteRoots:   o.texts("allowed_write_roots", 256, isFolder, "a clean relative folder"),
	}
}

// limit is a number within the bounds of a limit.
func (o *members) limit(name string, l contract.Limit) int {
	return int(o.whole(name, int64(l.Min), int64(l.Max)))
}

func (r *shape) provenance(v any) result.Provenance {
	o := r.object(v)
	p := result.Provenance{ProfileSHA256: o.hash("profile_sha256"), CapabilitiesSHA256: o.hash("capabilities_sha256")}
	o.list("modules", 1000, func(v any) {
		o := r.object(v)
		p.Modules = append(p.Modules, result.ModuleDigest{Name: o.text("name", 1, 1024), SHA256: o.hash("sha256")})
		o.done()
	})
	o.within("limits", func(v any) {
		o := r.object(v)
		p.Limits = result.Limits{
			CPUCores:            o.limit("cpu_cores", contract.CPUCores()),
			Isolation:           kernel.Isolation(o.one("isolation", string(kernel.IsolationFull), string(kernel.IsolationConfined), string(kernel.IsolationNone))),
			MaxChildren:         o.limit("max_children", contract.MaxChildren()),
			MaxOutputFiles:      o.limit("max_output_files", contract.MaxOutputFiles()),
			MaxTotalOutputBytes: o.limit("max_total_output_bytes", contract.MaxTotalOutputBytes()),
			MemoryMB:            o.limit("memory_mb", contract.MemoryMB()),
			TimeoutMS:           o.limit("timeout_ms", contract.TimeoutMS()),
		}
		o.done()
	})
	o.done()
	return p
}

func (r *shape) execution(v any) *kernel.Execution {
	o := r.object(v)
	e := &kernel.Execution{
		SandboxID:        o.form("sandbox_id", identifier("sbx_"), "the id of a sandbox"),
		Cmd:              o.texts("cmd", 1024, upTo(131072), "a string of at most 131072 characters"),
		ExitCode:         int(o.whole("exit_code", 0, 255)),
		StdoutSHA256:     o.hash("stdout_sha256"),
		StderrSHA256:     o.hash("stderr_sha256"),
		Outputs:          r.files(&o, "outputs", 10000, int64(contract.MaxTotalOutputBytes().Max)),
		Inputs:           r.files(&o, "inputs", 1000, int64(contract.InputFilesBytes().Max)),
		TotalOutputBytes: int(o.whole("total_output_bytes", 0, int64(contract.MaxTotalOutputBytes().Max))),
		OutputTruncated:  o.yes("output_truncated"),
	}
	o.done()
	return e
}

func (r *shape) files(o *members, name string, most int, size int64) []kernel.FileRef {
	list := []kernel.FileRef{}
	o.list(name, most, func(v any) {
		o := r.object(v)
		list = append(list, kernel.FileRef{Path: o.text("path", 0, 3072), SHA256: o.hash("sha256"), SizeBytes: int(o.whole("size_bytes", 0, size))})
		o.done()
	})
	return list
}

// checkRun is ST2 beyond the schema: times are of the calendar and in order, and the
// reasons are those of the outcome.
func (s *strictLevel) checkRun() {
	run := s.run
	if run == nil {
		return
	}
	for _, t := range []struct{ name, at string }{{"started_at", run.StartedAt}, {"completed_at", run.CompletedAt}} {
		if !isMoment(t.at) {
			s.fault("ST2", at(RunFile, t.name), "no day or no time of the calendar")
		}
	}
	if run.CompletedAt < run.StartedAt {
		s.fault("ST2", at(RunFile, "completed_at"), "before it started, at %s", run.StartedAt)
	}
	reasons := run.Decision.Reasons
	if i, ok := sortedSet(reasons); !ok {
		s.fault("ST2", at(RunFile, "decision", "reasons", strconv.Itoa(i)), "the reasons are not sorted, or one is there twice")
		return
	}
	switch {
	case run.Decision.Accepted || run.KernelResultKind == kernel.OutcomeBundle && run.Execution == nil:
		if len(reasons) > 0 {
			s.fault("ST2", at(RunFile, "decision", "reasons"), "an accepted result has no reasons")
		}
	case len(reasons) == 0:
		s.fault("ST2", at(RunFile, "decision", "reasons"), "a rejected result has a reason")
	case run.KernelResultKind != kernel.OutcomeBundle:
		s.checkFindings(reasons)
	}
}

// checkFindings holds the reasons of a CLARIFY or REFUSE against their form, which is
// that of "ID POINTER", and the refuse reason against the first of them. Where only what
// is built in has decided, the ids and the title are those of its rules.
func (s *strictLevel) checkFindings(reasons []string) {
	title := ""
	for i, reason := range reasons {
		id, pointer, _ := strings.Cut(reason, " ")
		if !isRuleID(id) || pointer != "" && pointer[0] != '/' || pointer == "" && !strings.HasSuffix(reason, " ") {
			s.fault("ST2", at(RunFile, "decision", "reasons", strconv.Itoa(i)), "%s is not the id of a rule and a JSON Pointer", quoted(reason))
			continue
		}
		if t := s.checkRule(i, id); i == 0 {
			title = t
		}
	}
	if s.run.KernelResultKind != kernel.OutcomeRefuse {
		return
	}
	told, ok := strings.CutPrefix(s.run.RefuseReason, reasons[0]+": ")
	switch {
	case !ok || strings.TrimSpace(told) == "":
		s.fault("ST2", at(RunFile, "refuse_reason"), "not the first reason, a colon, and a title")
	case title != "" && told != title:
		s.fault("ST2", at(RunFile, "refuse_reason"), "not the title of the rule, %s", quoted(title))
	}
}

// isRuleID accepts a capital and 1 to 31 capitals, digits and underscores.
func isRuleID(s string) bool {
	return len(s) >= 2 && len(s) <= 32 && isUpper(s[0]) && onlyOf(s, func(c byte) bool { return isUpper(c) || asciiDigit(c) || c == '_' })
}

// digest is the hash of the canonical subset of run.json.
func (s *strictLevel) digest() (canon.ContentHash, bool) {
	h, err := result.Digest(s.object(RunFile))
	return h, err == nil
}
