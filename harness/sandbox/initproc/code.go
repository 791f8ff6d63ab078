package initproc

import "github.com/fiador/fiador/harness/sandbox/wire"

// Encode returns the plan as bytes.
func (p *Plan) Encode() []byte {
	c := &wire.Coder{}
	codePlan(c, p)
	return c.B
}

// DecodePlan reads a plan that Encode returned.
func DecodePlan(b []byte) (*Plan, error) {
	p := new(Plan)
	return p, wire.Decode(b, p, codePlan)
}

func codePlan(c *wire.Coder, p *Plan) {
	wire.List(c, &p.Steps, codeStep)
	codeConfine(c, &p.Confine)
	wire.List(c, &p.Actions, codeAction)
	wire.Number(c, &p.GraceMS)
	wire.Bool(c, &p.PIDs)
}

func codeStep(c *wire.Coder, s *Step) {
	wire.Text(c, &s.Op)
	wire.Text(c, &s.Name)
	wire.Text(c, &s.From)
	wire.Number(c, &s.FD)
	wire.Text(c, &s.To)
	wire.Text(c, &s.Text)
	wire.List(c, &s.Lower, wire.Text[string])
	wire.Number(c, &s.Attr)
	wire.Number(c, &s.Mode)
	wire.Number(c, &s.Bytes)
	wire.Number(c, &s.Inodes)
	wire.Number(c, &s.ID)
}

func codeConfine(c *wire.Coder, f *Confine) {
	wire.Number(c, &f.UID)
	wire.Number(c, &f.CPUs)
	wire.List(c, &f.Rlimits, codeRlimit)
	wire.Pointer(c, &f.Landlock, codeLandlock)
	wire.Text(c, &f.Seccomp)
	wire.Bool(c, &f.Last)
}

func codeRlimit(c *wire.Coder, l *Rlimit) {
	wire.Number(c, &l.Resource)
	wire.Number(c, &l.Value)
}

func codeLandlock(c *wire.Coder, l *Landlock) {
	wire.Number(c, &l.FS)
	wire.Number(c, &l.Net)
	wire.Number(c, &l.Scoped)
	wire.List(c, &l.Rules, codeRule)
}

func codeRule(c *wire.Coder, r *Rule) {
	wire.Text(c, &r.Path)
	wire.Number(c, &r.Access)
}

func codeAction(c *wire.Coder, a *Action) {
	wire.List(c, &a.Argv, wire.Text[string])
	wire.List(c, &a.Env, wire.Text[string])
	wire.Text(c, &a.Dir)
	wire.Text(c, &a.Root)
	wire.Text(c, &a.Path)
	wire.Text(c, &a.Content)
	wire.Bool(c, &a.Given)
	wire.Number(c, &a.Mode)
}

// EncodeSecrets returns variables, "NAME=value", as bytes.
func EncodeSecrets(variables []string) []byte {
	c := &wire.Coder{}
	codeSecrets(c, &variables)
	return c.B
}

func codeSecrets(c *wire.Coder, variables *[]string) {
	wire.List(c, variables, wire.Text[string])
}
