package kernel

// The methods of this file give a value as canon.Canonical writes it fastest: as
// maps and lists. They say the same as the struct tags, which TestPlainAgrees
// holds them to.

func plainList[T any](list []T, plain func(T) map[string]any) []any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = plain(v)
	}
	return out
}

// plain leaves out an empty id, as the tag does.
func (b *Bundle) plain() map[string]any {
	root := b.RootNode.plain()
	terminal := make([]any, len(b.TerminalNodes))
	for i, n := range b.TerminalNodes {
		if n.ID == b.RootNode.ID {
			terminal[i] = root
			continue
		}
		terminal[i] = n.plain()
	}
	m := map[string]any{
		"schema_version":       b.SchemaVersion,
		"kernel_version":       b.KernelVersion,
		"source_intent_hash":   b.SourceIntentHash,
		"status":               b.Status,
		"root_node":            root,
		"terminal_nodes":       terminal,
		"outputs":              plainList(b.Outputs, Output.plain),
		"unresolved_questions": plainList(b.UnresolvedQuestions, Question.plain),
		"stats": map[string]any{
			"total_nodes":          b.Stats.TotalNodes,
			"terminal_nodes":       b.Stats.TerminalNodes,
			"max_depth":            b.Stats.MaxDepth,
			"total_outputs":        b.Stats.TotalOutputs,
			"unresolved_count":     b.Stats.UnresolvedCount,
			"avg_terminal_entropy": b.Stats.AvgTerminalEntropy,
			"avg_terminal_density": b.Stats.AvgTerminalDensity,
		},
	}
	if b.ID != "" {
		m["id"] = b.ID
	}
	return m
}

func (n Node) plain() map[string]any {
	var parent any
	if n.ParentID != nil {
		parent = *n.ParentID
	}
	return map[string]any{
		"id":          n.ID,
		"parent_id":   parent,
		"status":      n.Status,
		"goal":        n.Goal,
		"constraints": anyList(n.Constraints),
		"entropy": map[string]any{
			"unresolved_refs":     n.Entropy.UnresolvedRefs,
			"schema_gaps":         n.Entropy.SchemaGaps,
			"contradiction_count": n.Entropy.ContradictionCount,
			"branching_factor":    n.Entropy.BranchingFactor,
			"entropy_score":       n.Entropy.EntropyScore,
		},
		"density": map[string]any{
			"concrete_constraints": n.Density.ConcreteConstraints,
			"specified_outputs":    n.Density.SpecifiedOutputs,
			"constraint_depth":     n.Density.ConstraintDepth,
			"density_score":        n.Density.DensityScore,
		},
		"children":             anyList(n.Children),
		"unresolved_questions": plainList(n.UnresolvedQuestions, Question.plain),
	}
}

func (q Question) plain() map[string]any {
	m := map[string]any{
		"id":                   q.ID,
		"text":                 q.Text,
		"expected_answer_type": q.ExpectedAnswerType,
		"why_needed":           q.WhyNeeded,
		"information_gain":     q.InformationGain,
		"priority":             q.Priority,
	}
	if len(q.Options) > 0 {
		m["options"] = anyList(q.Options)
	}
	return m
}

func (o Output) plain() map[string]any {
	var action any
	if o.Action != nil {
		action = *o.Action
	}
	return map[string]any{
		"id":                 o.ID,
		"type":               o.Type,
		"path":               o.Path,
		"content":            o.Content,
		"content_hash":       o.ContentHash,
		"source_constraints": anyList(o.SourceConstraints),
		"confidence":         o.Confidence,
		"action":             action,
		"encoding":           o.Encoding,
		"executable":         o.Executable,
	}
}

// Plain is the profile as canon.Canonical writes it fastest: as a map.
func (p PolicyProfile) Plain() map[string]any {
	return map[string]any{
		"name":                   p.Name,
		"allow_network":          p.AllowNetwork,
		"timeout_ms":             p.TimeoutMS,
		"max_output_files":       p.MaxOutputFiles,
		"max_total_output_bytes": p.MaxTotalOutputBytes,
		"allowed_commands":       anyList(p.AllowedCommands),
		"allowed_write_roots":    anyList(p.AllowedWriteRoots),
	}
}

// Plain is the record as canon.Canonical writes it fastest: as a map.
func (r DecisionRecord) Plain() map[string]any {
	return map[string]any{
		"accepted":            r.Accepted,
		"reasons":             anyList(r.Reasons),
		"validated_by_kernel": r.ValidatedByKernel,
	}
}

// Plain is the execution as canon.Canonical writes it fastest: as a map.
func (e *Execution) Plain() map[string]any {
	return map[string]any{
		"sandbox_id":         e.SandboxID,
		"cmd":                anyList(e.Cmd),
		"exit_code":          e.ExitCode,
		"stdout_sha256":      string(e.StdoutSHA256),
		"stderr_sha256":      string(e.StderrSHA256),
		"inputs":             plainList(e.Inputs, FileRef.plain),
		"outputs":            plainList(e.Outputs, FileRef.plain),
		"total_output_bytes": e.TotalOutputBytes,
		"output_truncated":   e.OutputTruncated,
	}
}

func (f FileRef) plain() map[string]any {
	return map[string]any{"path": f.Path, "sha256": string(f.SHA256), "size_bytes": f.SizeBytes}
}
